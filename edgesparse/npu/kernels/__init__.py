"""One file per kind of step; `kernel_for` picks."""

from __future__ import annotations

from edgesparse.npu.kernels.base import Kernel, NotOnNpu, Setting
from edgesparse.npu.kernels.copy import CopyKernel
from edgesparse.npu.kernels.elementwise import ElementwiseKernel
from edgesparse.npu.kernels.mac import MacKernel
from edgesparse.npu.kernels.pool import POOLS, PoolKernel
from edgesparse.npu.storage import reads
from edgesparse.plan import model as pm

__all__ = ["Kernel", "NotOnNpu", "Setting", "kernel_for"]


def kernel_for(setting: Setting) -> Kernel:
    """The kernel of a step. Raises NotOnNpu with the reason where the CPU has to run it."""
    step = setting.step
    if isinstance(step.source, (pm.Lstm, pm.Svdf)):
        raise NotOnNpu(f"{type(step.source).__name__} has no code")
    for tensor in (*reads(step), *(b.output for b in step.branches)):
        place = setting.place(tensor)
        if place.layout is not pm.Layout.NWC or place.halo:
            raise NotOnNpu(f"a tensor in layout {place.layout.name} has no code")
    if isinstance(step.source, pm.Mac):
        return _without_loose_halo(setting, MacKernel(setting))
    if isinstance(step.source, pm.Copy):
        return CopyKernel(setting)
    if any(isinstance(s, POOLS) for b in step.branches for s in b.stages):
        return PoolKernel(setting)
    return ElementwiseKernel(setting)


def _without_loose_halo(setting: Setting, kernel: Kernel) -> Kernel:
    """A ring or constant has no halo: a window may not reach outside it."""
    tensor = setting.plan.tensors[setting.step.input]
    need, out = kernel.needs[0], kernel.output
    if (tensor.place.ring >= 0 or tensor.data is not None) and (
            need.grid == "fixed" and need.pads(out.rows, out.cols).any):
        raise NotOnNpu("a window that reaches past the end of a ring has no code")
    return kernel
