"""What `dynamic_shapes` says of each input, and the conditions over sizes that follow from it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.dim import Derived, Dim, DimHint, dim_of
from onegraph.base.errors import ConstraintViolationError, InvalidArgument
from onegraph.export.conditions import holds, sizes_in

Said = Dim | Derived | DimHint
SAMPLES = (0, 1, 2, 7, 64)  # sizes from the least one on, with which a condition is tried


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in the arguments: its name, and what was said of its sizes (for a tensor)."""

    name: str
    value: Any
    dims: Mapping[int, Said]


def leaves_with_dims(
    function: Callable[..., Any], paths: Sequence[tuple[Sequence[Any], Any]], dynamic_shapes: Any
) -> list[Leaf]:
    """The leaves of `(args, kwargs)`, given with their paths, in their order.

    Raises:
        InvalidArgument: where what is said does not fit the arguments.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if isinstance(dynamic_shapes, tuple | list):
        if len(dynamic_shapes) > len(parameters):
            raise InvalidArgument(f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(parameters)} parameters")
        names = [parameter.name for parameter in parameters]
        dynamic_shapes = dict(zip(names, dynamic_shapes, strict=False))
    if not isinstance(dynamic_shapes, Mapping | None):
        raise InvalidArgument(f"dynamic_shapes expects a dict by parameter, a tuple or None, got {dynamic_shapes!r}")
    found: list[Leaf] = []
    taken: set[str] = set()
    for path, value in paths:
        keys = path_of(parameters, path)
        name = unique("_".join("".join(c if c.isalnum() else "_" for c in str(key)) for key in keys), taken)
        taken.add(name)
        said: Any = dynamic_shapes or {}
        for key in keys:
            said = None if said is None else below(said, key)
        found.append(Leaf(name, value, dims_of_leaf(name, value, said)))
    unknown = set(dynamic_shapes or ()) - {path_of(parameters, path)[0] for path, _ in paths}
    if unknown:
        raise InvalidArgument(f"dynamic_shapes names {', '.join(sorted(map(str, unknown)))}, which no argument is for")
    return found


def path_of(parameters: Sequence[inspect.Parameter], path: Sequence[Any]) -> list[Any]:
    """The parameter that a path into `(args, kwargs)` begins with, and the keys behind it."""
    keys = [next(getattr(key, at) for at in ("idx", "key", "name") if hasattr(key, at)) for key in path]
    kind, first, *rest = keys
    if kind == 1:
        named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
        if first in named:
            return [first, *rest]
        return [*(p.name for p in parameters if p.kind is p.VAR_KEYWORD), first, *rest]
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if first < len(positional):
        return [positional[first], *rest]
    return [*(p.name for p in parameters if p.kind is p.VAR_POSITIONAL), first - len(positional), *rest]


def unique(name: str, taken: set[str]) -> str:
    name = name if name.isidentifier() else f"input_{name}"
    return next(n for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1))) if n not in taken)


def below(said: Any, key: Any) -> Any:
    """What is said of a part of an argument."""
    if isinstance(said, Mapping):
        return said.get(key)
    if isinstance(said, tuple | list) and type(key) is int and key < len(said):
        return said[key]
    raise InvalidArgument(f"dynamic_shapes has {said!r} where an argument has a part {key!r}")


def dims_of_leaf(name: str, value: Any, said: Any) -> dict[int, Said]:
    """What is said of the sizes of a tensor; constants are left out."""
    if said is None:
        return {}
    if not isinstance(value, torch.Tensor):
        raise InvalidArgument(f"dynamic_shapes describes {name}, which is no tensor")
    if isinstance(said, tuple | list):
        if len(said) != value.dim():
            raise InvalidArgument(f"{name} has {value.dim()} dimensions, and dynamic_shapes describes {len(said)}")
        said = dict(enumerate(said))
    if not isinstance(said, Mapping):
        raise InvalidArgument(f"the sizes of {name} are described by a dict or a tuple, got {said!r}")
    found: dict[int, Said] = {}
    for dim, given in said.items():
        if type(dim) is not int or not -value.dim() <= dim < value.dim():
            raise InvalidArgument(f"{name} has {value.dim()} dimensions, and dynamic_shapes describes number {dim!r}")
        dim %= value.dim()
        meant = dim_of(given)
        if type(meant) is int and meant != value.shape[dim]:
            raise InvalidArgument(f"{name}.size({dim}) is {value.shape[dim]}, and dynamic_shapes says {meant}")
        if isinstance(meant, Dim | Derived) or isinstance(meant, DimHint) and meant.kind != "STATIC":
            found[dim] = meant
    return found


def declared(leaves: Sequence[Leaf]) -> tuple[str, ...]:
    """The conditions that named sizes are to meet.

    Raises:
        ConstraintViolationError: if an example does not meet one.
        InvalidArgument: where a size is derived from one that no input has.
    """
    conditions = tuple(dict.fromkeys(conditions_of(leaves)))
    sizes = {leaf.name: tuple(leaf.value.shape) for leaf in leaves if isinstance(leaf.value, torch.Tensor)}
    for condition in conditions:
        if not holds(condition, sizes):
            where = ", ".join(f"{name}.size({dim}) is {sizes[name][dim]}" for name, dim in sizes_in(condition))
            raise ConstraintViolationError(f"dynamic_shapes says that {condition}, and in the example {where}")
    return conditions


def conditions_of(leaves: Sequence[Leaf]) -> Iterator[str]:
    places: dict[Dim, str] = {}
    for leaf in leaves:
        for dim, said in leaf.dims.items():
            if isinstance(said, Dim):
                here = f"{leaf.name}.size({dim})"
                if places.setdefault(said, here) != here:
                    yield f"{places[said]} == {here}"
    for root, there in places.items():
        if any(root.name == other.name and root != other for other in places):
            raise InvalidArgument(f"two Dims have the name {root.name}, and other bounds")
        if root.min is not None:
            yield f"{root.min} <= {there}"
        if root.max is not None:
            yield f"{there} <= {root.max}"
    for leaf in leaves:
        for dim, said in leaf.dims.items():
            if isinstance(said, Derived):
                if said.root not in places:
                    raise InvalidArgument(
                        f"{leaf.name}.size({dim}) is {said.text(said.root.name)}, which is the size of no input"
                    )
                yield f"{leaf.name}.size({dim}) == {said.text(places[said.root])}"


def check_program(conditions: Sequence[str], leaves: Sequence[Leaf]) -> None:
    """Look for sizes that were asked for, and that the program cannot have.

    Raises:
        ConstraintViolationError: which names the condition, and such sizes.
    """
    said = {(leaf.name, dim): meant for leaf in leaves for dim, meant in leaf.dims.items()}
    shapes = {leaf.name: list(leaf.value.shape) for leaf in leaves if isinstance(leaf.value, torch.Tensor)}
    for condition in conditions:
        places = sizes_in(condition)
        meant = [said.get(place) for place in places]
        if any(isinstance(each, DimHint) for each in meant):  # what the program needs of these is what is meant
            continue
        named = (each.root if isinstance(each, Derived) else each for each in meant)
        roots = [each for each in dict.fromkeys(named) if isinstance(each, Dim)]
        for chosen in itertools.product(*map(samples, roots)):
            values = dict(zip(roots, chosen, strict=True))
            sizes = {name: list(shape) for name, shape in shapes.items()}
            for (name, dim), each in zip(places, meant, strict=True):
                if isinstance(each, Dim):
                    sizes[name][dim] = values[each]
                elif isinstance(each, Derived):
                    sizes[name][dim] = each.of(values[each.root])
            if not holds(condition, sizes):
                asked = ", ".join(f"{name}.size({dim}) = {sizes[name][dim]}" for name, dim in places)
                dims = ", ".join(sorted(root.name for root in roots))
                raise ConstraintViolationError(
                    f"the program needs that {condition}, and dynamic_shapes ({dims}) allows {asked}: say so in "
                    "dynamic_shapes (equal names for equal sizes, min, max, a derived Dim, or Dim.AUTO)"
                )


def samples(dim: Any) -> list[int]:
    """Sizes that a Dim may have. Where it has no least one, the program may need 2 or more."""
    low = 2 if dim.min is None else dim.min
    found = [low + more for more in SAMPLES if dim.max is None or low + more <= dim.max]
    return [*found, dim.max] if dim.max is not None else found
