"""What a program has said of the sizes of its tensors: which of them change, and within which bounds.

The marks are attributes of the tensor, by torch's names: those of `torch._dynamo.mark_dynamic` count as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import ConstraintViolationError, InvalidArgument
from onegraph.base.late import late_module
from onegraph.capture.directives import function_marks

if TYPE_CHECKING:
    from onegraph.capture.directives import handlers as policy
else:
    policy = late_module("onegraph.capture.directives.handlers")

DYNAMIC = "_dynamo_dynamic_indices"
UNBACKED = "_dynamo_unbacked_indices"
WEAK = "_dynamo_weak_dynamic_indices"
STATIC = "_dynamo_static_indices"
RANGES = "_dynamo_dynamic_range"
ENDLESS = 2**31  # bounds from here on say nothing: torch has such ones where none are given

Dims = int | Sequence[int]


class Range(NamedTuple):
    """The bounds of one dimension, both of them among the sizes that it may have."""

    dim: int
    min: int | None
    max: int | None


@dataclass(frozen=True, slots=True)
class SizeMarks:
    """Dimensions that must be symbolic, that had better be, and that are constants; the ranges that were given."""

    dynamic: frozenset[int]
    weak: frozenset[int]
    static: frozenset[int]
    ranges: tuple[Any, ...]


def marks_of(tensor: torch.Tensor) -> SizeMarks:
    """What has been said of a tensor."""

    def said(name: str) -> Any:
        return getattr(tensor, name, ())

    return SizeMarks(
        frozenset(said(DYNAMIC)) | frozenset(said(UNBACKED)),
        frozenset(said(WEAK)),
        frozenset(said(STATIC)),
        tuple(said(RANGES)),
    )


def mark_dynamic(t: torch.Tensor, index: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """Say that the size of a dimension changes: it is symbolic from the first compilation on.

    Args:
        t: a tensor that a compiled function will be given. The mark is on this tensor, not on others of its sizes.
        index: the dimension, or several.
        min: the least size that it will have; None for no bound.
        max: the greatest size that it will have; None for no bound.

    Raises:
        InvalidArgument: for a dimension that the tensor does not have, or bounds that its size is outside of.
        ConstraintViolationError: from the compilation, where the program needs the size to be a constant, or a tensor
            has a size outside of the bounds.
    """
    dims = _checked("mark_dynamic", t, index)
    for bound in (min, max):
        if bound is not None and (type(bound) is not int or bound < 0):
            raise InvalidArgument(f"mark_dynamic expects bounds of 0 or more, got {bound!r}")
    for dim in dims:
        size = t.shape[dim]
        if size < (min or 0) or (max is not None and size > max):
            raise InvalidArgument(f"dimension {dim} has size {size}, which is not from {min} to {max}")
    _add(t, DYNAMIC, dims)
    _remove(t, STATIC, dims)
    _remove(t, RANGES, [each for each in getattr(t, RANGES, ()) if each.dim in dims])
    if min is not None or max is not None:
        _add(t, RANGES, [Range(dim, min, max) for dim in dims])


def mark_unbacked(t: torch.Tensor, index: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """The same as `mark_dynamic`: a symbolic size is never asked for its value here, unless the program asks."""
    mark_dynamic(t, index, min=min, max=max)


def maybe_mark_dynamic(t: torch.Tensor, index: Dims) -> None:
    """Say that the size of a dimension may change: it is symbolic where the program does not need it to be a constant.

    Args:
        t: the tensor that is given to the compiled function.
        index: a dimension, or several. Negative ones count from the last.

    Raises:
        InvalidArgument: for a dimension that the tensor does not have.
    """
    dims = _checked("maybe_mark_dynamic", t, index)
    _add(t, WEAK, dims)
    _remove(t, STATIC, dims)


def mark_static(t: torch.Tensor, index: Dims | None = None) -> None:
    """Say that the size of a dimension, or every size, is to be a constant: each value of it makes another version.

    Args:
        t: the tensor that is given to the compiled function.
        index: a dimension, or several; None for all. Negative ones count from the last.

    Raises:
        InvalidArgument: for a dimension that the tensor does not have.
    """
    dims = range(t.dim()) if index is None and isinstance(t, torch.Tensor) else index
    given = _checked("mark_static", t, dims)
    _add(t, STATIC, given)
    _remove(t, DYNAMIC, given)
    _remove(t, WEAK, given)


def mark_static_address(t: torch.Tensor, guard: bool = False) -> None:
    """Accepted for torch's sake: what an address would be kept for, a recorded replay on a GPU, does not exist here.

    Args:
        t: a tensor.
        guard: accepted.

    Raises:
        InvalidArgument: for what is no tensor.
    """
    _checked("mark_static_address", t, ())


for _function in (mark_dynamic, mark_unbacked, maybe_mark_dynamic, mark_static, mark_static_address):
    function_marks.mark(_function, policy.forbidden)


def _checked(name: str, t: Any, index: Any) -> list[int]:
    """The dimensions, counted from the front."""
    if not isinstance(t, torch.Tensor):
        raise InvalidArgument(f"{name} expects a tensor, got {type(t).__qualname__}")
    found: list[int] = []
    for dim in [index] if type(index) is int else list(index) if isinstance(index, Iterable) else [None]:
        if type(dim) is not int or not -t.dim() <= dim < t.dim():
            raise InvalidArgument(f"{name} expects dimensions of a tensor of {t.dim()} dimensions, got {index!r}")
        found.append(dim % t.dim())
    return found


def _add(t: torch.Tensor, name: str, values: Iterable[Any]) -> None:
    setattr(t, name, set(getattr(t, name, ())) | set(values))


def _remove(t: torch.Tensor, name: str, values: Iterable[Any]) -> None:
    if hasattr(t, name):
        setattr(t, name, set(getattr(t, name)) - set(values))


# ---- in a trace ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Promised:
    """A size that must stay symbolic, within bounds: what it is called, and its value as far as it is known."""

    text: str
    size: torch.SymInt
    bounds: Any
    value: Callable[[], int | None]

    def is_within(self) -> bool:
        """Whether the size is within its bounds; it is held to the answer by guards."""
        if self.bounds is None:
            return True
        low, high = self.bounds.min or 0, self.bounds.max
        return bool(self.size >= low) and (high is None or high >= ENDLESS or bool(self.size <= high))

    def check(self, is_within: bool, guards: Iterable[str]) -> None:
        """Look at what the trace has made of it.

        Raises:
            ConstraintViolationError: where it is outside of its bounds, or a constant.
        """
        if not is_within:
            found, low, high = self.size.node.hint, self.bounds.min or 0, self.bounds.max
            raise ConstraintViolationError(f"{self.text} is {found}, and was marked to be from {low} to {high}")
        value = self.value()
        if value is None:
            return
        about = "; ".join(text for text in guards if self.text in text)
        raise ConstraintViolationError(
            f"{self.text} was marked as dynamic, and the program needs it to be {value}"
            + (f" (it holds that {about})" if about else "")
            + ": use maybe_mark_dynamic where it may be a constant, or look for what reads it as a number"
        )
