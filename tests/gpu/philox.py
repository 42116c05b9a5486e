"""Draws as eager's kernels make them on a GPU: the loop of each thread, for all threads at once, in NumPy.

As in ATen/native/cuda/DistributionTemplates.h, Dropout.cu and the headers of cuRAND.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

BLOCK = 256
Array = np.ndarray
Words = tuple[Array, Array, Array, Array]


def philox(seed: int, counter: Array, stream: Array) -> Words:
    """Ten rounds, on four words of 32 bits."""
    low = np.uint64(0xFFFFFFFF)
    words = [counter & low, counter >> np.uint64(32), stream & low, stream >> np.uint64(32)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]),
            second & low,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]),
            first & low,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    a, b, c, d = (word.astype(np.uint32) for word in words)
    return a, b, c, d


class Streams:
    """What `curand_init` makes for each thread."""

    def __init__(self, seed: int, threads: int, offset: int) -> None:
        assert offset % 4 == 0
        self.seed, self.threads, self.counter = seed, np.arange(threads, dtype=np.uint64), offset // 4

    def words(self) -> Words:
        found = philox(self.seed, np.full_like(self.threads, self.counter), self.threads)
        self.counter += 1
        return found


@dataclass
class Generator:
    """The generator of a device with so many threads that draw."""

    seed: int
    offset: int = 0
    threads: int = 132 * 2048

    def initial_seed(self) -> int:
        return self.seed

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        assert offset % 4 == 0
        self.offset = offset

    def taken(self, count: int, together: int) -> tuple[Streams, int]:
        """The streams of a draw of so many elements, and how many there are; the offset is behind it."""
        threads = BLOCK * min(-(-count // BLOCK), self.threads // BLOCK)
        streams = Streams(self.seed, threads, self.offset)
        self.offset += ((count - 1) // (threads * together) + 1) * 4
        return streams, threads

    # ---- layouts -----------------------------------------------------------------------------------------------------

    def strided(self, count: int, together: int, each: Callable[[Words], tuple[Array, ...]]) -> Array:
        """`distribution_elementwise_grid_stride_kernel`"""
        if count == 0:
            return np.empty(0)
        streams, threads = self.taken(count, together)
        thread = np.arange(threads)
        step = threads * together
        found = None
        for begin in range(0, -(-count // step) * step, step):
            drawn = each(streams.words())
            found = np.empty(count, drawn[0].dtype) if found is None else found
            for place in range(together):
                at = begin + thread + threads * place
                found[at[at < count]] = drawn[place][at < count]
        assert found is not None
        return found

    def side_by_side(self, count: int, wide: int) -> Array:
        """The uniform numbers of `fused_dropout_kernel_vec`, and of `fused_dropout_kernel` where `wide` is 1."""
        if wide == 1:
            return self.strided(count, 4, uniform)
        streams, threads = self.taken(count, 4)
        thread = np.arange(threads)
        found = np.empty(count, np.float32)
        for begin in range(0, count, threads * wide):
            linear = begin + thread * wide
            inside = linear < count
            for call in range((wide + 3) // 4):
                drawn = uniform(streams.words())
                for place in range(min(wide, 4)):
                    found[linear[inside] + 4 * call + place] = drawn[place][inside]
        return found

    # ---- draws -------------------------------------------------------------------------------------------------------

    def uniform(self, count: int, dtype: torch.dtype, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        double = dtype == torch.float64
        numbers = torch.from_numpy(self.strided(count, 2 if double else 4, uniform_double if double else uniform))
        ends = torch.tensor([low, high], dtype=dtype)
        value = (numbers * (ends[1] - ends[0]).to(numbers.dtype) + ends[0].to(numbers.dtype)).to(dtype)
        return torch.where(value == ends[1], ends[0], value)

    def normal(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.from_numpy(self.strided(count, 4, normal)).to(dtype)

    def exponential(self, count: int, dtype: torch.dtype, rate: float) -> torch.Tensor:
        double = dtype == torch.float64
        numbers = torch.from_numpy(self.strided(count, 2 if double else 4, uniform_double if double else uniform))
        least = torch.finfo(numbers.dtype).eps / 2
        log = torch.where(numbers >= 1 - least, torch.tensor(-least, dtype=numbers.dtype), numbers.log())
        return (torch.tensor(-1.0, dtype=numbers.dtype) / torch.tensor(rate, dtype=numbers.dtype) * log).to(dtype)

    def bernoulli(self, count: int, dtype: torch.dtype, chance: float) -> torch.Tensor:
        double = dtype == torch.float64
        numbers = torch.from_numpy(self.strided(count, 2 if double else 4, uniform_double if double else uniform))
        return (numbers < torch.tensor(chance, dtype=numbers.dtype)).to(dtype)

    def bernoulli_by(self, chances: torch.Tensor) -> torch.Tensor:
        """A thread makes four elements that stand side by side, in blocks of 512."""
        count = chances.numel()
        threads = -(-count // 2048) * 512
        streams = Streams(self.seed, threads, self.offset)
        self.offset += 12
        numbers = np.stack(uniform(streams.words()), 1).reshape(-1)[:count]
        wide = torch.float64 if chances.dtype == torch.float64 else torch.float32
        return (torch.from_numpy(numbers).to(wide) <= chances.flatten().to(wide)).to(chances.dtype)

    def integers(self, count: int, dtype: torch.dtype, low: int, high: int) -> torch.Tensor:
        size = high - low
        if size >= 1 << 28:
            words = self.strided(count, 2, words_of_64)
        else:
            words = self.strided(count, 4, lambda words: words).astype(np.uint64)
        return torch.from_numpy((words % np.uint64(size)).astype(np.int64) + low).to(dtype)

    def random(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        digits = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}.get(dtype)
        size = (1 << digits) + 1 if digits else 2 if dtype == torch.bool else torch.iinfo(dtype).max + 1
        if dtype in (torch.float64, torch.int64):
            words = self.strided(count, 2, words_of_64)
        else:
            words = self.strided(count, 4, lambda words: words).astype(np.uint64)
        return torch.from_numpy((words % np.uint64(size)).astype(np.int64)).to(dtype)

    def dropout(self, x: torch.Tensor, p: float, wide: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of a tensor whose elements are in order; `wide` is how many of them a thread makes at once."""
        inner = torch.float64 if x.dtype == torch.float64 else torch.float32
        kept = torch.tensor(1.0 - p, dtype=inner)
        scale = torch.tensor(1.0 / kept.item(), dtype=inner)
        numbers = torch.from_numpy(self.side_by_side(x.numel(), wide)).to(inner)
        mask = (numbers < kept).view(x.shape)
        return (x.to(inner) * mask.to(inner) * scale).to(x.dtype), mask


# ---- what is made of four words --------------------------------------------------------------------------------------

STEP, TWO_PI = np.float32(2.3283064e-10), np.float32(6.2831855)


def uniform(words: Words) -> tuple[Array, ...]:
    """`curand_uniform4`"""
    return tuple(word.astype(np.float32) * STEP + STEP / np.float32(2) for word in words)


def uniform_double(words: Words) -> tuple[Array, ...]:
    """`curand_uniform2_double`"""
    x, y, z, w = (word.astype(np.uint64) for word in words)
    return tuple((a ^ (b << np.uint64(21))) * 2.0**-53 + 2.0**-54 for a, b in ((x, y), (z, w)))


def normal(words: Words) -> tuple[Array, ...]:
    """`curand_normal4`, with exact sines and cosines."""
    found: list[Array] = []
    for x, y in (words[:2], words[2:]):
        u = x.astype(np.float32) * STEP + STEP / np.float32(2)
        factor = STEP * TWO_PI
        v = (y.astype(np.float32).astype(np.float64) * factor + factor / 2).astype(np.float32)
        radius = np.sqrt(np.float32(-2) * np.log(u))
        found += [np.sin(v) * radius, np.cos(v) * radius]
    return tuple(found)


def words_of_64(words: Words) -> tuple[Array, ...]:
    x, y, z, w = (word.astype(np.uint64) for word in words)
    return (x << np.uint64(32)) | y, (z << np.uint64(32)) | w
