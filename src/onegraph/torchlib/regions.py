"""Regions: parts of a program that a graph calls as a whole, as a node of its own.

    torch.cond(p, f, g, (x,))         Choice(f, g)            one of the bodies runs
    while_loop(c, f, (x,))            Repetition(c, f)        the second runs while the first gives true
    scan(f, init, xs)                 Scan(f)                 runs for each part of xs, with what the last turn gave
    map(f, xs)                        Scan(f)                 without anything that goes from turn to turn

A body is a graph, or the backward pass of one (`Gradients`), which takes nothing but its arguments and writes to none.
On real tensors a region runs its bodies. On fakes it is one operator, `onegraph::region`, which the graphs below
captured ones have; what is made of a body for them (`Body.run`) runs there. What a region gives is contiguous.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.aten import LIBRARY, define
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.given import plain
from onegraph.torchlib.histories import storage_of

Function = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a result from the start. It is contiguous."""

    size: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device

    def made(self, device: torch.device | str | None = None) -> Tensor:
        return torch.empty(self.size, dtype=self.dtype, device=device or self.device)


def shape_of(tensor: Tensor) -> Shape:
    return Shape(tuple(map(plain, tensor.size())), tensor.dtype, tensor.device)


class Body:
    """A function of values. `examples` are contiguous fakes of them, and symbolic numbers.

    `run` is what a backend has made of it, for contiguous tensors.
    """

    def __init__(self, function: Function, examples: Sequence[Any]) -> None:
        self.function, self.examples = function, examples
        self.run: Function | None = None

    def __call__(self, *values: Any) -> Sequence[Tensor]:
        if self.run is None:
            return self.function(*values)
        return [result.contiguous() for result in self.run(*values)]  # the next turn takes it


class Region:
    """`bodies`, and what is known of the results. `takes` tells for each value that the region takes whether it is a
    tensor: the others are numbers. Graphs know the region by its number, as long as somebody holds it.
    """

    name = "region"

    def __init__(
        self, bodies: Sequence[Body], results: Sequence[Shape], takes: Sequence[bool], is_random: bool = False
    ) -> None:
        self.bodies, self.results, self.takes, self.is_random = tuple(bodies), tuple(results), tuple(takes), is_random
        self.__name__ = self.__qualname__ = self.name
        self.number = next(_NUMBERS)
        self._backwards: dict[Any, Region] = {}
        REGIONS[self.number] = self

    def __call__(self, *values: Any) -> tuple[Tensor, ...]:
        """The results for real values, or fakes of them."""
        if not any(isinstance(value, FakeTensor) for value in values):
            found = apart(self.computed([body.function for body in self.bodies], values), values)
            # The program may write to them: the gradients of what has made them need them as they are.
            return tuple([result.clone() if result.requires_grad else result for result in found])
        tensors = [value for value in values if isinstance(value, Tensor)]
        numbers = [value for value in values if not isinstance(value, Tensor)]
        operator = torch.ops.onegraph.random_region if self.is_random else torch.ops.onegraph.region
        return tuple(operator(tensors, numbers, self.number))

    def computed(self, bodies: Sequence[Function], values: Sequence[Any]) -> Sequence[Tensor]:
        """The results, by calls of these in the place of the bodies."""
        raise NotImplementedError

    def differentiated(self, wanted: tuple[int, ...], given: tuple[bool, ...], values: Sequence[Any]) -> Region:
        """The region that takes these values, and gradients of the given results, and gives those of wanted values.

        Raises RuntimeError if there is none: eager differentiates such a region.
        """
        raise RuntimeError(f"the backward pass of {self.name} is eager's")

    def backward(self, wanted: tuple[int, ...], given: tuple[bool, ...], values: Sequence[Any]) -> Region:
        if self.is_random:
            raise RuntimeError(f"the random numbers of {self.name} are drawn once")
        if (wanted, given) not in self._backwards:
            self._backwards[wanted, given] = self.differentiated(wanted, given, values)
        return self._backwards[wanted, given]

    def joined(self, tensors: Sequence[Tensor], numbers: Sequence[Any]) -> list[Any]:
        """The values in their order, the tensors contiguous."""
        of_tensors, of_numbers = iter(tensors), iter(numbers)
        return [next(of_tensors).contiguous() if is_tensor else next(of_numbers) for is_tensor in self.takes]

    def taking(self, given: tuple[bool, ...]) -> tuple[bool, ...]:
        """What a region takes that has gradients of the given results beside the values."""
        return (*self.takes, *([True] * sum(given)))


#: The regions that somebody holds, by their numbers.
REGIONS: weakref.WeakValueDictionary[int, Region] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


class Choice(Region):
    """The first body if the first value is true, else the second. Each takes so many of the values behind it."""

    name = "cond"

    def computed(self, bodies: Sequence[Function], values: Sequence[Any]) -> Sequence[Tensor]:
        chosen = 0 if values[0] else 1
        return bodies[chosen](*values[1 : 1 + len(self.bodies[chosen].examples)])

    def differentiated(self, wanted: tuple[int, ...], given: tuple[bool, ...], values: Sequence[Any]) -> Region:
        tangents = [shape.made() for shape, is_given in zip(self.results, given, strict=True) if is_given]
        examples = [*map(contiguous, values[1:]), *tangents]
        places = tuple(n - 1 for n in wanted)
        bodies = [
            Body(Gradients(body.function, len(body.examples), len(values) - 1, places, given), examples)
            for body in self.bodies
        ]
        return Choice(bodies, [shape_of(values[n]) for n in wanted], self.taking(given))


class Repetition(Region):
    """The second body while the first one gives true. Both take the values; the second gives the first ones anew."""

    name = "while_loop"

    def computed(self, bodies: Sequence[Function], values: Sequence[Any]) -> Sequence[Tensor]:
        return self.carries(bodies, values)[-1]

    def carries(self, bodies: Sequence[Function], values: Sequence[Any], keeps: bool = False) -> list[Sequence[Any]]:
        """What each turn has taken of what is carried, and what the last one has given; that alone if none `keeps`."""
        goes_on, turn = bodies
        count = len(self.results)
        found, others = [values[:count]], values[count:]
        asked = values[count : len(self.bodies[0].examples)]  # by the condition
        while goes_on(*found[-1], *asked)[0]:
            carry = turn(*found[-1], *others)
            if not keeps:
                found.clear()
            found.append(carry)
        return found

    def differentiated(self, wanted: tuple[int, ...], given: tuple[bool, ...], values: Sequence[Any]) -> Region:
        return RepetitionBackward(self, wanted, given, values)


class Scan(Region):
    """The body for each part of some values along their first dimension: `scanned` ones, behind `carried` ones.

    It takes the carried ones, a part of each scanned one, and the other values; it gives the carried ones anew, and
    what is collected.
    """

    name = "scan"

    def __init__(self, body: Body, carried: int, scanned: int, *args: Any) -> None:
        super().__init__([body], *args)
        self.carried, self.scanned = carried, scanned

    def parted(self, values: Sequence[Any]) -> tuple[Sequence[Any], list[tuple[Tensor, ...]], Sequence[Any]]:
        """What is carried, the parts of each turn, and the others."""
        behind = self.carried + self.scanned
        turns = list(zip(*(x.unbind() for x in values[self.carried : behind]), strict=True))
        return values[: self.carried], turns, values[behind:]

    def computed(self, bodies: Sequence[Function], values: Sequence[Any]) -> Sequence[Tensor]:
        (turn,) = bodies
        carry, turns, others = self.parted(values)
        collected: list[list[Tensor]] = [[] for _ in self.results[self.carried :]]
        for parts in turns:
            found = turn(*carry, *parts, *others)
            carry = found[: self.carried]
            for items, item in zip(collected, found[self.carried :], strict=True):
                items.append(item)
        return [*carry, *map(torch.stack, collected)]

    def differentiated(self, wanted: tuple[int, ...], given: tuple[bool, ...], values: Sequence[Any]) -> Region:
        return ScanBackward(self, wanted, given, values)


class Backward(Region):
    """The backward pass of a loop: what is carried is computed again, then each turn is differentiated, the last first.

    `passed` are the values that gradients get to; `flows` tells for each result of a turn whether it has one.
    """

    def __init__(
        self,
        loop: Repetition | Scan,
        carried: int,
        results: Sequence[Shape],
        wanted: tuple[int, ...],
        given: tuple[bool, ...],
        values: Sequence[Any],
    ) -> None:
        *others, body = loop.bodies
        self.loop, self.carried, self.wanted, self.given, self.count = loop, carried, wanted, given, len(values)
        self.name = f"{loop.name}_backward"
        self.passed = tuple(n for n, v in enumerate(values) if isinstance(v, Tensor) and is_differentiable(v))
        self.flows = tuple(n in self.passed for n in range(carried)) + given[carried:]
        tangents = [shape.made() for shape, flows in zip(results, self.flows, strict=True) if flows]
        gradients = Gradients(body.function, self.count, self.count, self.passed, self.flows)
        bodies = [Body(each.function, each.examples) for each in (*others, body)]
        bodies.append(Body(gradients, [*body.examples, *tangents]))
        super().__init__(bodies, [shape_of(values[n]) for n in wanted], loop.taking(given))

    def flowing(self, values: Sequence[Any]) -> tuple[list[Tensor], list[Tensor | None]]:
        """The gradients that the last turn gets of what is carried, and those of what is collected."""
        tangents = iter(values[self.count :])
        of_results = [next(tangents) if is_given else None for is_given in self.given]
        of_carried = [
            torch.zeros_like(value) if tangent is None else tangent
            for n, (value, tangent) in enumerate(zip(values, of_results[: self.carried], strict=False))
            if n in self.passed
        ]
        return of_carried, of_results[self.carried :]


class RepetitionBackward(Backward):
    def __init__(
        self, loop: Repetition, wanted: tuple[int, ...], given: tuple[bool, ...], values: Sequence[Any]
    ) -> None:
        super().__init__(loop, len(loop.results), loop.results, wanted, given, values)

    def computed(self, bodies: Sequence[Function], values: Sequence[Any]) -> Sequence[Tensor]:
        *forward, gradients = bodies
        assert isinstance(self.loop, Repetition)
        others = values[self.carried : self.count]
        flowing, _ = self.flowing(values)
        sums: dict[int, Tensor] = {n: torch.zeros_like(values[n]) for n in self.passed if n >= self.carried}
        for carry in reversed(self.loop.carries(forward, values[: self.count], keeps=True)[:-1]):
            found = gradients(*carry, *others, *flowing)
            count = len(flowing)
            flowing = [*found[:count]]
            sums = {n: sums[n] + gradient for n, gradient in zip(sums, found[count:], strict=True)}
        whole = dict(zip(self.passed, [*flowing, *sums.values()], strict=True))
        return [whole[n] for n in self.wanted]


class ScanBackward(Backward):
    def __init__(self, loop: Scan, wanted: tuple[int, ...], given: tuple[bool, ...], values: Sequence[Any]) -> None:
        turns = [Shape(s.size[1:], s.dtype, s.device) if n >= loop.carried else s for n, s in enumerate(loop.results)]
        super().__init__(loop, loop.carried, turns, wanted, given, values)

    def computed(self, bodies: Sequence[Function], values: Sequence[Any]) -> Sequence[Tensor]:
        turn, gradients = bodies
        assert isinstance(self.loop, Scan)
        carry, turns, others = self.loop.parted(values[: self.count])
        carries = [carry]
        for parts in turns[:-1]:
            carries.append(turn(*carries[-1], *parts, *others)[: self.carried])
        flowing, of_collected = self.flowing(values)
        collected = [tangent.unbind() for tangent in of_collected if tangent is not None]
        behind = self.carried + self.loop.scanned
        of_parts: dict[int, list[Tensor]] = {n: [] for n in self.passed if self.carried <= n < behind}
        sums: dict[int, Tensor] = {n: torch.zeros_like(values[n]) for n in self.passed if n >= behind}
        for index in reversed(range(len(turns))):
            items = [parts[index] for parts in collected]
            found = gradients(*carries[index], *turns[index], *others, *flowing, *items)
            of_turn = iter(found)
            flowing = [next(of_turn) for _ in flowing]
            for parts_of in of_parts.values():
                parts_of.append(next(of_turn))
            sums = {n: sums[n] + next(of_turn) for n in sums}
        stacked = [torch.stack(parts[::-1]) for parts in of_parts.values()]
        whole = dict(zip(self.passed, [*flowing, *stacked, *sums.values()], strict=True))
        return [whole[n] for n in self.wanted]


class Gradients:
    """The gradients of `wanted` values of a function, from those of its `given` results.

    It is called with values, of which the function takes the first, and with the gradients behind so many values.
    """

    def __init__(
        self, function: Function, taken: int, values: int, wanted: tuple[int, ...], given: tuple[bool, ...]
    ) -> None:
        self.function, self.taken, self.values, self.wanted, self.given = function, taken, values, wanted, given
        self.__name__ = self.__qualname__ = "gradients"

    def __call__(self, *values: Any) -> list[Tensor]:
        again = torch.is_grad_enabled()
        tangents = iter(values[self.values :])
        with torch.enable_grad():
            inputs = [*values[: self.taken]]
            for n in self.wanted:
                if n < self.taken:
                    goes_on = again and inputs[n].requires_grad
                    inputs[n] = inputs[n].view_as(inputs[n]) if goes_on else inputs[n].detach().requires_grad_()
            results = self.function(*inputs)
            pairs = [(r, next(tangents)) for r, is_given in zip(results, self.given, strict=True) if is_given]
            pairs = [(result, tangent) for result, tangent in pairs if result.requires_grad]
            targets = [inputs[n] for n in self.wanted if n < self.taken]
            found: Sequence[Tensor | None] = [None] * len(targets)
            if pairs and targets:
                ends, gradients = zip(*pairs, strict=True)
                found = torch.autograd.grad(ends, targets, gradients, create_graph=again, allow_unused=True)
        of_targets = iter(found)
        gradients_of = [next(of_targets) if n < self.taken else None for n in self.wanted]
        return [
            torch.zeros_like(values[n]) if gradient is None else gradient.contiguous()
            for n, gradient in zip(self.wanted, gradients_of, strict=True)
        ]


def is_differentiable(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def apart(results: Sequence[Tensor], values: Sequence[Any]) -> list[Tensor]:
    """The results as contiguous tensors, of which none shares memory with another one, or with a value."""
    taken = {storage_of(value) for value in values if isinstance(value, Tensor)}
    found = []
    for result in results:
        own = result.contiguous()
        found.append(own.clone() if storage_of(own) in taken else own)
        taken.add(storage_of(found[-1]))
    return found


def contiguous(value: Any) -> Any:
    """A fake of a tensor that is contiguous; a number as it is."""
    return shape_of(value).made() if isinstance(value, Tensor) else value


# --- the operator ----------------------------------------------------------------------------------------------------


def run(tensors: Sequence[Tensor], numbers: Sequence[int], number: int) -> list[Tensor]:
    """Run the bodies on real tensors."""
    region = REGIONS[number]
    return apart(region.computed(region.bodies, region.joined(tensors, numbers)), tensors)


def run_on_meta(tensors: Sequence[Tensor], numbers: Sequence[Any], number: int) -> list[Tensor]:
    return [shape.made("meta") for shape in REGIONS[number].results]


def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    tensors, ctx.numbers, ctx.number = inputs
    ctx.wanted = [tensor.requires_grad for tensor in tensors]
    ctx.save_for_backward(*tensors)


def differentiate(ctx: Any, gradients: Sequence[Tensor | None]) -> Any:
    region, tensors = REGIONS[ctx.number], ctx.saved_tensors
    places = [place for place, is_tensor in enumerate(region.takes) if is_tensor]
    wanted = tuple(place for place, wants in zip(places, ctx.wanted, strict=True) if wants)
    given = tuple(gradient is not None for gradient in gradients)
    values = region.joined(tensors, ctx.numbers)
    backward = region.backward(wanted, given, values)
    found = iter(backward(*values, *[gradient for gradient in gradients if gradient is not None]))
    of_numbers: Any = None if ctx.numbers else []  # torch takes a list without anything for one of tensors
    return [next(found) if wants else None for wants in ctx.wanted], of_numbers, None


for _name, _tags in (("region", ()), ("random_region", (torch.Tag.nondeterministic_seeded,))):
    _schema = f"{_name}(Tensor[] tensors, SymInt[] numbers, int number) -> Tensor[]"
    if define(_schema, _tags, CompositeExplicitAutograd=run, Meta=run_on_meta):
        torch.library.register_autograd(f"onegraph::{_name}", differentiate, setup_context=keep, lib=LIBRARY)

#: The operators that regions are in graphs of aten.
OPERATORS = (torch.ops.onegraph.region.default, torch.ops.onegraph.random_region.default)
