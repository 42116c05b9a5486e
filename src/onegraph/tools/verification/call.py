"""A call that is run several times from one state, and what each run leaves behind."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping

import torch
from torch.nn.parameter import is_lazy

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.tools.verification.holders import TensorFacts
from onegraph.tools.verification.picture import Painter, Picture, Plain, tensor_leaves
from onegraph.tools.verification.precise import in_float64
from onegraph.tools.verification.reach import ATOMS, Found, named_arguments, reach
from onegraph.tools.verification.snapshot import SETTINGS, Snapshot
from onegraph.torchlib.pytree import leaves_of, map_leaves_of
from onegraph.torchlib.wrappers import is_wrapper

Function = Callable[..., object]
RANDOM = "torch's random state after the call"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run left behind. `rows` are results, state, gradients and random states; `error` is what it raised."""

    rows: Picture
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments, all the state that it reaches, and how that was before the first run."""

    target: Function
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    found: tuple[Found, ...]
    before: Snapshot

    @classmethod
    def of(cls, target: Function, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Call:
        """The call, with the state that it can reach now.

        Raises:
            InvalidArgument: for what cannot be put back behind a run.
        """
        arguments = named_arguments(parameters_of(target), args, kwargs)
        for name, value in arguments:
            if isinstance(value, Iterator):
                raise InvalidArgument(f"the argument '{name}' is an iterator, which one run uses up: give a list")
        found = tuple(reach([*arguments, (name_of(target), target)]))
        for each in found:
            if isinstance(each.target, torch.Tensor) and is_lazy(each.target):
                raise InvalidArgument(f"{each.path} has no size yet: call its module once before")
        return cls(target, args, kwargs, found, Snapshot.of(found))

    def run(self, function: Function) -> Outcome:
        """Run this function in the place of the target; the state is as before when it returns."""
        try:
            return self._observe(function)
        finally:
            self.before.restore()

    def run_in_float64(self) -> Outcome | None:
        """The outcome of the target in double precision. None if that cannot be, or if it raises."""
        tensors = [each.target for each in self.found if isinstance(each.target, torch.Tensor)]
        try:
            with in_float64(tensors):
                outcome = self._observe(self.target)
        except (RuntimeError, TypeError, NotImplementedError):  # a tensor that has no such type
            return None
        finally:
            self.before.restore()
        return outcome if outcome.error is None else None

    def _observe(self, function: Function) -> Outcome:
        arguments = (self.args, dict(self.kwargs))
        given = recorded_anew(self.found, arguments)
        if given:
            arguments = map_leaves_of(lambda leaf: given[id(leaf)].value if id(leaf) in given else leaf, arguments)
        args, kwargs = arguments
        found = [*self.found, *(Found(each.path, each.value, TensorFacts(each.value)) for each in given.values())]
        painter = Painter({id(each.target): each.path for each in found})
        error: Exception | None = None
        result: object = None
        try:
            result = function(*args, **kwargs)
        except Exception as raised:
            error = raised
        settings = {f"{each.name} after the call": fingerprint(each.get()) for each in SETTINGS}
        rows: Picture = dict(painter.leaves("result", result))
        rows |= {f"{path} after the call": leaf for path, leaf in painter.state(found).items()}
        rows |= settings
        rows |= gradients(result, found, list(given.values()))
        return Outcome(rows, error)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that has a history: a run is given a copy of it, so that nothing is added to that history."""

    path: str
    leaf: torch.Tensor
    value: torch.Tensor


def recorded_anew(found: tuple[Found, ...], arguments: object) -> dict[int, Argument]:
    """Copies of the arguments that autograd has made, by the identity of those."""
    paths = {id(each.target): each.path for each in found}
    made: dict[int, Argument] = {}
    for each in leaves_of(arguments):
        if isinstance(each, torch.Tensor) and each.requires_grad and not each.is_leaf:
            with torch.enable_grad():
                leaf = each.detach().requires_grad_()
                made[id(each)] = Argument(paths.get(id(each), "an argument"), leaf, leaf.clone())
    return made


def gradients(result: object, found: list[Found], given: list[Argument]) -> Picture:
    """Gradients of a fixed projection of the results, for every leaf that is trained, and every argument."""
    tensors = [each for each in leaves_of(result) if isinstance(each, torch.Tensor) and not is_wrapper(each)]
    results = [each for each in tensors if each.requires_grad]
    sources = {id(each.leaf): (each.path, each.leaf) for each in given}
    for each in found:
        if isinstance(each.target, torch.Tensor) and each.target.is_leaf and each.target.requires_grad:
            sources.setdefault(id(each.target), (each.path, each.target))
    if not results or not sources:
        return {}
    generator = torch.Generator().manual_seed(0)
    onto = [projection(each, generator) for each in results]
    try:
        taken = torch.autograd.grad(results, [leaf for _, leaf in sources.values()], onto, allow_unused=True)
    except Exception as error:
        return {"the backward pass": Plain(f"raises {type(error).__name__}")}
    rows: Picture = {}
    for (path, _), gradient in zip(sources.values(), taken, strict=True):
        rows |= dict(tensor_leaves(f"gradient of {path}", gradient)) if gradient is not None else {}
    return rows


def projection(result: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """What a result is multiplied by: eighths, which every type of elements has without rounding."""
    eighths = torch.randint(-8, 9, result.shape, generator=generator)
    return (eighths.to(torch.float64) / 8).to(result.device, result.dtype)


def fingerprint(value: object) -> Plain:
    """A short text that differs where the values do."""
    if isinstance(value, ATOMS):
        return Plain(value)
    data = value.numpy().tobytes() if isinstance(value, torch.Tensor) else pickle.dumps(value)
    return Plain(hashlib.sha256(data).hexdigest()[:12])


def parameters_of(target: Function) -> list[str]:
    """The names of the positional parameters, as far as there are any."""
    called = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]


def name_of(target: Function) -> str:
    """How the state of the target is called in a report."""
    if isinstance(target, torch.nn.Module):
        return "module"
    return "self" if inspect.ismethod(target) else ""
