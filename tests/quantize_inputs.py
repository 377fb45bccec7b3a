"""Inputs for the float models of ../shared: real ones where it has any, else smooth made ones.

`SOURCES` names, for every model, its inputs and where they come from. The first half is meant for
calibration, the second for evaluation; no recording is on both sides (the one photograph is).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import fft
from scipy.io import wavfile

from edgesparse.graph.ir import Array
from edgesparse.importers.tflite import import_tflite

DS1 = (
    *("101", "106", "108", "109", "112", "114", "115", "116", "118", "119", "122", "124"),
    *("201", "203", "205", "207", "208", "209", "215", "220", "223", "230"),
)
"""Training records of MIT-BIH: calibration and the choice of a default use no others."""
BEATS_PER_RECORD = 12
PCG_PER_DATABASE = 30


@dataclass(frozen=True)
class Source:
    """make(data root, generator) -> [2 N, ...] float32; first half calibrates, second evaluates."""

    model: str
    made_of: str
    make: Callable[[Path, np.random.Generator], Array]

    def halves(self, root: Path, seed: int = 0) -> tuple[Array, Array]:
        """(calibration, evaluation) inputs."""
        inputs = self.make(root, np.random.default_rng(seed)).astype(np.float32)
        middle = len(inputs) // 2
        return inputs[:middle], inputs[middle:]


def log_mel_frames(root: Path, rng: np.random.Generator) -> Array:
    """[25, 1, 640]: the frames of one machine recording."""
    return _stored(root, "ad01", "ad01")


def utterance(root: Path, rng: np.random.Generator) -> Array:
    """[64, 1, 49, 10, 1]: one spoken word, moved in time, in loudness and with noise on it."""
    (word,) = _stored(root, "kws", "kws_dscnn")
    variants = []
    for _ in range(64):
        moved = np.roll(word, rng.integers(-12, 13), axis=1)
        moved = moved * rng.uniform(0.7, 1.1)
        moved[..., 0, :] += rng.uniform(-10, 10)  # loudness is an offset of the first coefficient
        variants.append(moved + rng.normal(0, 1.0, word.shape))
    return np.stack(variants)


def _stored(root: Path, name: str, model: str) -> Array:
    """Real int8 inputs, in the real numbers of the int8 model they were made for."""
    stored = np.load(root / "models" / "inputs" / f"mlperf_{name}_int8_inputs.npz")["x"]
    data = (root / "models" / "mlperf" / f"mlperf_{model}_int8.tflite").read_bytes()
    graph = import_tflite(data, model)
    x = graph.tensors[graph.inputs[0]]
    return (stored.astype(np.float32) - x.zero_point) * x.scale


def pictures(side: int, top: float) -> Callable[[Path, np.random.Generator], Array]:
    """[128, side, side, 3], 0 ... top: random crops of one photograph."""

    def make(root: Path, rng: np.random.Generator) -> Array:
        from matplotlib.cbook import get_sample_data
        from PIL import Image

        photo = Image.open(get_sample_data("grace_hopper.jpg", asfileobj=False)).convert("RGB")
        crops = []
        for _ in range(128):
            size = int(rng.integers(side, photo.width // 2))
            left = int(rng.integers(0, photo.width - size))
            up = int(rng.integers(0, photo.height - size))
            crop = photo.crop((left, up, left + size, up + size)).resize((side, side))
            pixels = np.asarray(crop, np.float32)[:, :: rng.choice((-1, 1))]
            crops.append(np.clip(pixels * rng.uniform(0.6, 1.3), 0, 255) * (top / 255))
        return np.stack(crops)

    return make


def angles(root: Path, rng: np.random.Generator) -> Array:
    """[512, 1] uniform over one turn, the range the sine model was trained on."""
    return rng.uniform(0, 2 * np.pi, (512, 1))


def beats(before: int, length: int) -> Callable[[Path, np.random.Generator], Array]:
    """[264, length] ECG around R peaks of MIT-BIH at 360 Hz, each of mean 0 and deviation 1."""

    def make(root: Path, rng: np.random.Generator) -> Array:
        import wfdb

        windows = []
        for name in (*DS1[::2], *DS1[1::2]):
            path = str(root / "mitdb" / name)
            signal = wfdb.rdrecord(path, channels=[0]).p_signal[:, 0]
            marks = wfdb.rdann(path, "atr")
            peaks = marks.sample[np.isin(marks.symbol, list("NLRVASFEJ"))]
            peaks = peaks[(peaks > before) & (peaks < len(signal) - length)]
            for peak in np.sort(rng.choice(peaks, BEATS_PER_RECORD, replace=False)):
                beat = signal[peak - before : peak - before + length]
                windows.append((beat - beat.mean()) / beat.std())
        return np.stack(windows)

    def reshaped(root: Path, rng: np.random.Generator) -> Array:
        return make(root / "data", rng)

    return reshaped


def movement(root: Path, rng: np.random.Generator) -> Array:
    """[64, 51, 3] standardised acceleration: gravity, two swings and noise."""
    t = np.arange(51)[:, None]
    windows = []
    for _ in range(64):
        swing = sum(
            rng.uniform(0, 1.2, 3) * np.sin(2 * np.pi * rng.uniform(0.02, 0.2) * t
                                            + rng.uniform(0, 2 * np.pi, 3))
            for _ in range(2))
        windows.append(rng.normal(0, 0.8, 3) + swing + rng.normal(0, 0.2, (51, 3)))
    return np.stack(windows)


def heart_sounds(frames: int, coefficients: int, cepstrum: bool) -> Callable[
        [Path, np.random.Generator], Array]:
    """[180, frames * coefficients] log-mel energies (or their cepstrum) of 3 s at 2 kHz.

    Of each of the six databases 8 recordings calibrate and 8 others evaluate.
    """

    def make(root: Path, rng: np.random.Generator) -> Array:
        chosen = []
        for database in "abcdef":
            names = sorted((root / "data" / "pcg" / database).glob("*.wav"))
            chosen.append([names[i] for i in
                           np.linspace(0, len(names) - 1, PCG_PER_DATABASE).astype(int)])
        features = []
        for name in [n for half in (0, 1) for names in chosen for n in names[half::2]]:
            _, sound = wavfile.read(name)
            start = rng.integers(0, len(sound) - 6040)
            features.append(_log_mel(sound[start : start + 6040] / 32768, frames, coefficients))
        energies = np.stack(features)
        if cepstrum:
            energies = fft.dct(energies, axis=-1, norm="ortho")
        return energies.reshape(len(features), -1)

    return make


def _log_mel(sound: Array, frames: int, coefficients: int) -> Array:
    """[frames, coefficients] log energy in triangular bands that are even on the mel scale."""
    step = 6000 // frames
    cut = np.lib.stride_tricks.sliding_window_view(sound, 40)[:: step][:frames]
    power = np.abs(np.fft.rfft(cut, 256)) ** 2 / 256
    mel = np.linspace(0, 2595 * np.log10(1 + 1000 / 700), coefficients + 2)
    edges = 700 * (10 ** (mel / 2595) - 1) / 1000 * 128
    bins = np.arange(129)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    bands = np.clip(np.minimum(rising, falling), 0, None)
    return np.log(np.maximum(power @ bands, np.finfo(np.float64).eps))


def _as_image(make: Callable[[Path, np.random.Generator], Array]) -> Callable[
        [Path, np.random.Generator], Array]:
    """[N, T] -> [N, 1, T, 1]."""
    return lambda root, rng: make(root, rng)[:, None, :, None]


MACHINE = "25 real log-mel frames of one machine recording: the first 12 calibrate, 13 evaluate"
WORD = "one real spoken word, moved in time and loudness, with noise; 32 and 32"
PHOTO = "random crops of the one photograph that matplotlib ships; 64 and 64"
ECG = "real beats of MIT-BIH DS1, z-scored; 132 of 11 records, 132 of 11 others"
HEART = "real heart sounds, 3 s, log-mel or cepstrum; 90 recordings and 90 others"

SOURCES: Mapping[str, Source] = {source.model: source for source in (
    Source("mlperf/mlperf_ad01_fp32", MACHINE, log_mel_frames),
    Source("mlperf/mlperf_ad_ToyCar_dynrange", MACHINE, log_mel_frames),
    Source("mlperf/mlperf_kws_dscnn_fp32", WORD, utterance),
    Source("mlperf/mlperf_ic_resnet8_fp32", PHOTO, pictures(32, 255.0)),
    Source("mlperf/mlperf_vww_fp32", PHOTO, pictures(96, 1.0)),
    Source("tflm/tflm_hello_float", "made: uniform 0 ... 2 pi, its domain; 256 and 256", angles),
    Source("ecg/ecg_classifyheartbeats_fp32", ECG, beats(99, 260)),
    Source("har/har_ashwinbyte_fp32", "made: gravity, two swings, noise; 32 and 32", movement),
    Source("pcg/pcg_lmfe_default", HEART, heart_sounds(150, 26, cepstrum=False)),
    Source("pcg/pcg_oldmodels_mfcc_float16", HEART, heart_sounds(300, 13, cepstrum=True)),
    Source("generated/conv2d_uns80_fp32_SP", ECG, _as_image(beats(99, 256))),
    Source("generated/mlp_b1480_fp32_SP", ECG, beats(99, 256)),
    *(Source(f"../cases/tflite/{name}", ECG, beats(63, 128))
      for name in ("f_dense", "f_csr", "f_b4", "f_b4d")),
)}
