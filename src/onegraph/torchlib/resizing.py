"""`torch.nn.functional.interpolate` and `torch.linspace` to sizes that are symbols, of which torch asks the numbers.

The former ends in operators that do not. Source: `compute_output_size` in ATen/native/UpSample.cpp, and
`linspace_kernel` in ATen/native/cpu/RangeFactoriesKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.torchlib.overlaps import hint_of

aten = torch.ops.aten

#: By mode, rank of the image, and whether edges are smoothed.
Kernels = dict[tuple[str, int, bool], Callable[..., Tensor]]

_PLAIN: Kernels = {
    **{("nearest", rank, False): getattr(aten, f"upsample_nearest{rank}d").default for rank in (1, 2, 3)},
    **{("nearest-exact", rank, False): getattr(aten, f"_upsample_nearest_exact{rank}d").default for rank in (1, 2, 3)},
}
_ALIGNING: Kernels = {
    ("linear", 1, False): aten.upsample_linear1d.default,
    ("bilinear", 2, False): aten.upsample_bilinear2d.default,
    ("trilinear", 3, False): aten.upsample_trilinear3d.default,
    ("bicubic", 2, False): aten.upsample_bicubic2d.default,
    ("bilinear", 2, True): aten._upsample_bilinear2d_aa.default,
    ("bicubic", 2, True): aten._upsample_bicubic2d_aa.default,
}
_POOLING = {("area", rank, False) for rank in (1, 2, 3)}
_SIGNATURE = signature(F.interpolate)


def interpolation_of_symbols(args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[], Tensor] | None:
    """The call, if an image is resized from or to symbolic sizes, and nothing is wrong with the arguments."""
    try:
        made = _SIGNATURE.bind(*args, **kwargs)
    except TypeError:
        return None
    made.apply_defaults()
    x, size, scale, mode, align, recompute, antialias = made.arguments.values()
    if not isinstance(x, Tensor) or x.device.type != "cpu" or not isinstance(mode, str):
        return None
    key, rank = (mode, x.dim() - 2, bool(antialias)), x.dim() - 2
    if key not in _ALIGNING and (align is not None or key not in _PLAIN.keys() | _POOLING):
        return None
    scales = _listed(scale, rank, (int, float))
    sizes = _listed(size, rank, (int, torch.SymInt))
    if (size is None) is (scale is None) or (scales if size is None else sizes) is None or (recompute and sizes):
        return None
    before = x.shape[2:]
    if not any(isinstance(n, torch.SymInt) for n in (*before, *(sizes or ()))):
        return None
    if scales is not None:
        sizes = [_scaled(n, factor) for n, factor in zip(before, scales, strict=True)]
    assert sizes is not None
    if any(hint_of(n) < 1 for n in sizes):  # the operators refuse it for numbers, and not always for symbols
        sizes = [int(n) for n in sizes]
    given = [None] * rank if scales is None or recompute else [float(factor) for factor in scales]

    def call() -> Tensor:
        if key in _POOLING:
            return _pooled(x, sizes)
        if key in _PLAIN:
            return _PLAIN[key](x, sizes, *given)
        return _ALIGNING[key](x, sizes, bool(align), *given)

    return call


def _pooled(x: Tensor, sizes: Any) -> Tensor:
    """Signals as images with one row, as aten has it."""
    match sizes:
        case [length]:
            return F.adaptive_avg_pool2d(x.unsqueeze(-2), (1, length)).squeeze(-2)
        case [_, _]:
            return F.adaptive_avg_pool2d(x, sizes)
    return F.adaptive_avg_pool3d(x, sizes)


def _listed(value: Any, rank: int, kinds: tuple[type, ...]) -> list[Any] | None:
    """A number for each dimension, or None where that is not given."""
    numbers = list(value) if isinstance(value, list | tuple) else [value] * rank
    fits = len(numbers) == rank and all(isinstance(n, kinds) and not isinstance(n, bool) for n in numbers)
    return numbers if fits else None


def _scaled(size: Any, factor: float) -> Any:
    """Rounded to zero, after a product in double precision, which is exact for factors that are powers of two."""
    if factor > 0 and float(factor).is_integer():
        return size * int(factor)
    if 0 < factor < 1 and (1 / factor).is_integer() and int(1 / factor).bit_count() == 1:
        return size // int(1 / factor)
    return torch.sym_int(size * factor)


def linspace_of_symbols(args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[], Tensor] | None:
    """The call, if the number of steps is a symbol, above one, and the ends are numbers."""
    given = dict(zip(("start", "end", "steps"), args, strict=False)) | kwargs
    dtype, device = given.pop("dtype", None) or torch.get_default_dtype(), given.pop("device", None)
    steps = given.get("steps")
    if given.keys() != {"start", "end", "steps"} or len(args) > 3 or not isinstance(steps, torch.SymInt):
        return None
    ends = given["start"], given["end"]
    if not all(isinstance(n, int | float | torch.SymInt | torch.SymFloat) for n in ends) or not steps > 1:
        return None
    on_cpu = torch.device(device or torch.get_default_device()).type == "cpu"
    return partial(_linspace, *ends, steps, dtype) if on_cpu and dtype in (torch.float32, torch.float64) else None


def _linspace(start: Any, end: Any, steps: Any, dtype: torch.dtype) -> Tensor:
    """The second half counts back from the end, so that both ends are exact."""
    first, last = (torch.full((), value, dtype=dtype, device="cpu") for value in (start, end))
    step = (last - first) / (steps - 1)
    at = torch.arange(steps, device="cpu")
    return torch.where(at < steps // 2, first + step * at, last - step * (steps - 1 - at))
