"""The emulated NPU: instruction set, assembler, lowering of plans, profiles.

docs/NPU.md is its law; native/src/npu executes it.
"""
