"""Two outcomes of one call, compared: eager's and another's, with one in double precision as the judge.

Values of other rounding are no difference. Where they are further apart than rounding of single operators allows, the
call is run in double precision, and the compiled result is at fault only if its error is several times eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

import torch

from onegraph.base.dataclass import dataclass
from onegraph.tools.verification.call import RANDOM, Outcome
from onegraph.tools.verification.picture import Kind, Known, Leaf, Plain, Values
from onegraph.tools.verification.precise import PRECISE

#: How far values may be apart without a judge, relative and absolute: what single operators differ by.
CLOSE = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6, torch.float64: 1e-7}
CLOSE |= {torch.complex64: 1.3e-6, torch.complex128: 1e-7}
#: The same where nothing can judge: sums of another order are allowed for.
NEAR = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-4, torch.float64: 1e-7}
NEAR |= {torch.complex64: 1e-4, torch.complex128: 1e-7}
#: The error of a compiled result may be this many times eager's, and this many units in the last place.
THE_CALL = "the call"  # the place of a difference in what it raises
Precise = Callable[[torch.Tensor], torch.Tensor | None]
TIMES = 4.0
UNITS = 8.0


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which the compiled call is not what the eager one is, and how it differs, as text.

    `gap` is that of values, as a share of the largest one; infinite for what has none.
    """

    place: str
    text: str
    gap: float = inf

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Judge:
    """The outcome in double precision, made when it is first asked for.

    Numbers that are drawn may depend on the type of elements. Where as many were drawn as in eager mode, they did not.
    """

    reference: Callable[[], Outcome | None]

    def value_at(self, place: str, eager: Outcome, value: torch.Tensor) -> torch.Tensor | None:
        """The precise value of a place, which eager has this value for; None if there is none."""
        outcome = self.reference()
        if outcome is None or outcome.rows[RANDOM] != eager.rows[RANDOM]:
            return None
        leaf = outcome.rows.get(place)
        if not isinstance(leaf, Values) or leaf.tensor.shape != value.shape:
            return None
        is_precise = leaf.tensor.dtype is PRECISE.get(value.dtype, value.dtype)  # or the program has chosen a type
        return leaf.tensor if is_precise else None


def differences(eager: Outcome, compiled: Outcome, judge: Judge) -> tuple[Difference, ...]:
    """What of the compiled outcome is not eager's."""
    left, right = eager.error, compiled.error
    if type(left) is not type(right):
        return (Difference(THE_CALL, f"{raised(right)}, in eager it {raised(left)}"),)
    found = []
    for place in dict.fromkeys([*eager.rows, *compiled.rows]):
        pair = eager.rows.get(place), compiled.rows.get(place)
        text = difference(*pair, partial(judge.value_at, place, eager))
        if text:
            found.append(Difference(place, text, gap_of(*pair)))
    return tuple(found)


def gap_of(eager: Leaf | None, compiled: Leaf | None) -> float:
    """How far values are apart, as a share of eager's largest."""
    if not isinstance(eager, Values) or not isinstance(compiled, Values) or eager.tensor.shape != compiled.tensor.shape:
        return inf
    left, right = (wide(each.tensor.to_dense().cpu()) for each in (eager, compiled))
    gaps = torch.where(left == right, 0.0, (left - right).abs())
    scale = left.abs().nan_to_num(posinf=0.0).max()
    return float(gaps[~(left.isnan() & right.isnan())].max() / scale) if scale > 0 and gaps.isfinite().all() else inf


def raised(error: Exception | None) -> str:
    return "returns" if error is None else f"raises {type(error).__name__}: {str(error).partition(chr(10))[0]}"


def difference(eager: Leaf | None, compiled: Leaf | None, precise: Precise) -> str:
    """How one place differs; empty if it does not."""
    if isinstance(eager, Values) and isinstance(compiled, Values):
        return difference_of_values(eager, compiled, precise)
    if eager == compiled:
        return ""
    return f"is {described(compiled)}, in eager {described(eager)}"


def described(leaf: Leaf | None) -> str:
    match leaf:
        case None:
            return "missing"
        case Values(tensor=tensor, kind=kind):
            return f"a {kind} of {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        case Known(path=path):
            return f"the object {path}"
        case Plain(value=value):
            return repr(value)
        case Kind(name=name, count=count):
            return f"of type {name} with {count} parts"
    return repr(leaf)


def difference_of_values(eager: Values, compiled: Values, precise: Precise) -> str:
    left, right = eager.tensor, compiled.tensor
    for what, mine, theirs in (
        ("type", compiled.kind, eager.kind),
        ("dtype", right.dtype, left.dtype),
        ("shape", list(right.shape), list(left.shape)),
        ("requires_grad", compiled.requires_grad, eager.requires_grad),
    ):
        if mine != theirs:
            return f"{what} is {mine}, in eager {theirs}"
    if left.device.type == "meta":
        return ""
    # A float of Python came out of a tensor, mostly of single precision.
    dtype = torch.float32 if eager.kind == "float" else left.dtype
    left, right = left.to_dense().cpu(), right.to_dense().cpu()
    if left.numel() == 0 or bool(is_close(left, right, dtype).all()):
        return ""
    exact = precise(left)
    if exact is None:
        close = within(left, right, NEAR.get(dtype, 0.0))
        return "" if bool(close.all()) else wrong(left, right, close, "")
    return judged(left, right, exact.to_dense().cpu(), dtype)


def scale_of(tensor: torch.Tensor) -> float:
    """The largest of the finite elements: gradients may all be small."""
    return float(wide(tensor).abs().nan_to_num(posinf=0.0).max())


def is_close(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where both differ by no more than roundings; where all are small, as gradients may be, by little of the most."""
    near = within(left, right, NEAR.get(dtype, 0.0), min(1.0, scale_of(left)))
    return within(left, right, CLOSE.get(dtype, 0.0)) & near


def within(left: torch.Tensor, right: torch.Tensor, tolerance: float, scale: float = 1.0) -> torch.Tensor:
    """Where both are equal, or as close as that, for each element; `scale` is that of absolute tolerance."""
    if left.dtype is right.dtype and not (left.is_floating_point() or left.is_complex()):
        return left == right
    return torch.isclose(wide(left), wide(right), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def judged(left: torch.Tensor, right: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> str:
    """How the compiled values differ, if their error is more than eager's accounts for."""
    left_wide, right_wide, exact = wide(left), wide(right), wide(reference)
    same = torch.isclose(left_wide, right_wide, rtol=0, atol=0, equal_nan=True)
    finite = exact.isfinite()
    scale = float(exact[finite].abs().max()) if bool(finite.any()) else 0.0
    unit = torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0
    errors = (left_wide - exact).abs()
    eager_error = float(errors[errors.isfinite()].max()) if bool(errors.isfinite().any()) else 0.0
    allowed = TIMES * eager_error + UNITS * unit * scale
    agrees = torch.isclose(right_wide, exact, rtol=0, atol=allowed, equal_nan=True)
    fine = same | agrees
    if bool(fine.all()):
        return ""
    return wrong(left, right, fine, f"; eager's largest error against float64 is {eager_error:.3g}")


def wrong(left: torch.Tensor, right: torch.Tensor, fine: torch.Tensor, against: str) -> str:
    """The worst of the elements that are not fine."""
    off = ~fine
    gap = torch.where(off, (wide(left) - wide(right)).abs().nan_to_num(nan=float("inf")), torch.tensor(-1.0))
    at = int(gap.flatten().argmax())
    index = [int(number) for number in torch.unravel_index(torch.tensor(at), left.shape)]
    where = f" at {index}" if index else ""
    count = f"{int(off.sum())} of {left.numel()} elements differ, most" if left.numel() > 1 else "differs"
    return f"{count}{where}: {right.flatten()[at].item():.6g}, in eager {left.flatten()[at].item():.6g}{against}"
