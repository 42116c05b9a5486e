"""Python's random numbers: a call of a function of `random`, or of a generator, is a draw of the residual code."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from onegraph.capture.breaks import PYTHON_RANDOM, GraphBreak
from onegraph.capture.calls.registry import Breaking, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Const, Source
from onegraph.capture.heap.type_rules import TypeRule, admit_opaque, rule_for
from onegraph.capture.interp.functions import row_for
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.symbolic.generator_states import Kind
from onegraph.capture.symbolic.random_draws import LARGEST_INTEGER, Draw, is_known


def copy_of(generator: random.Random) -> random.Random:
    made = random.Random()
    made.setstate(generator.getstate())
    return made


PYTHON = Kind(copy_of, random.Random.getstate, random.Random.setstate)
#: The generator of the module's functions.
OWN: random.Random = random.random.__self__  # type: ignore[attr-defined]


@rule_for(random.Random)
class OutsideGenerators(TypeRule):
    def admit(self, world: Any, real: Any, source: Source, guarded: bool) -> Any:
        """Another call may bring another one, or the same in another state."""
        return admit_opaque(world, real, source, guarded)


def refused(tracer: Tracing) -> bool:
    """Whether residual code cannot draw for the program: what draws may run again, or later, or not at all."""
    return tracer.late.active or tracer.recorder.checkpoint is not None


def found_at(tracer: Tracing, generator: Any, own: Any, broken: GraphBreak) -> Source:
    """Where residual code finds a generator.

    Raises:
        GraphBreak: the trace has made it, or has found it in native code.
    """
    if generator is own:
        return Const(id(own), "the random generator", own)
    world = tracer.world
    source: Source | None = world.drawn.get(id(generator)) or world.origin.get(id(world.shadow_of.get(id(generator))))
    if source is None:
        raise broken
    return source


def constant(tracer: Tracing, value: Any, broken: GraphBreak) -> Any:
    """A copy of an argument that is a constant: a number, a text, or a container of these.

    Raises:
        GraphBreak: it is something else, or a number that is not known.
    """
    value = tracer.numbers.concrete_deep(tracer.world.realize_deep(value), "argument of a draw")
    if type(value) in (list, tuple):
        return type(value)([constant(tracer, item, broken) for item in value])
    if type(value) in ATOMS or type(value) is range:
        return value
    raise broken


def are_alike(population: Any) -> bool:
    """Whether all of the items are integers that fit a tensor, or all are floating-point numbers."""
    if type(population) is range:
        return max(abs(population.start), abs(population.stop)) < LARGEST_INTEGER
    kinds = set(map(type, population)) if type(population) in (list, tuple) else set()
    return kinds == {float} or kinds == {int} and all(abs(item) < LARGEST_INTEGER for item in population)


def least_of(args: Any) -> int:
    """What integers are at least that are drawn with these arguments."""
    found = [0]
    for arg in args:
        if type(arg) is range:
            found += (min(arg.start, arg.stop),)
        found += [arg] if type(arg) is int else [least_of(arg)] if type(arg) in (list, tuple) else []
    return min(found)


def shuffled(generator: random.Random, items: list[Any]) -> list[Any]:
    made = list(items)
    generator.shuffle(made)
    return made


def _draws(function: Callable[..., Any], fits: Callable[..., bool], named: str) -> None:
    @policy(function)
    def draw(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The numbers that are drawn, as symbols."""
        generator, *given = args
        real, broken = tracer.world.real(generator), GraphBreak(PYTHON_RANDOM, name=named)
        if type(real) is not random.Random or refused(tracer):
            raise broken
        source = found_at(tracer, real, OWN, broken)
        draws = tracer.random
        # The first of several bounds what is drawn from below.
        may_be = [fits is numbers_only and (at > 0 or len(given) == 1) for at in range(len(given))]
        given = [
            value if kept and tracer.numbers.is_symbolic(value) else constant(tracer, value, broken)
            for value, kept in zip(given, may_be, strict=True)
        ]
        named_ones = {name: constant(tracer, value, broken) for name, value in kwargs.items()}
        if not fits(*map(draws.known, given), *named_ones.values()):
            raise broken
        found = draws.draw(PYTHON, real, Draw(function, source, tuple(given), named_ones))
        if not is_known(found):
            raise broken
        return draws.value(found, least=least_of((*given, *named_ones.values())))


def numbers_only(*args: Any) -> bool:
    return all(arg is None or type(arg) is float or type(arg) is int and abs(arg) < LARGEST_INTEGER for arg in args)


#: The methods that give numbers for numbers.
OF_NUMBERS = """random uniform triangular randint randrange betavariate binomialvariate expovariate gammavariate gauss
lognormvariate normalvariate vonmisesvariate paretovariate weibullvariate""".split()
for _name in OF_NUMBERS:
    if hasattr(random.Random, _name):  # the binomial distribution is of Python 3.12 and later
        _draws(getattr(random.Random, _name), numbers_only, f"random.{_name}")
_draws(random.Random.getrandbits, lambda bits: type(bits) is int and bits <= 62, "random.getrandbits")
_draws(random.Random.seed, lambda *args: True, "random.seed")
for _name in ("choice", "choices", "sample"):
    _draws(getattr(random.Random, _name), lambda population, *others: are_alike(population), f"random.{_name}")


@policy(random.Random)
def make(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    broken = GraphBreak(PYTHON_RANDOM, name="random.Random")
    if kwargs or len(args) != 1 or args[0] is None or refused(tracer):
        raise broken
    return tracer.random.generator(random.Random, tuple([constant(tracer, value, broken) for value in args]))


@policy(random.Random.shuffle)
def shuffle(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A list of numbers is drawn anew in its order."""
    generator, *given = args
    real, broken = tracer.world.real(generator), GraphBreak(PYTHON_RANDOM, name="random.shuffle")
    if type(real) is not random.Random or refused(tracer) or len(given) != 1 or kwargs or type(given[0]) is not list:
        raise broken
    source, items = found_at(tracer, real, OWN, broken), constant(tracer, given[0], broken)
    if items and not are_alike(items):
        raise broken
    found = tracer.random.draw(PYTHON, real, Draw(shuffled, source, (items,), {}))
    if not is_known(found):
        raise broken
    tracer.setitem(given[0], slice(None), tracer.random.value(found, least=least_of((items,))))


def _of_module(function: BuiltinFunctionType, method: Any) -> None:
    @policy(function)
    def draw(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tracer.call(method, (OWN, *args), kwargs)


#: Native methods of the module's generator. Native code that is given one would draw out of sight.
for _name in ("random", "getrandbits"):
    _of_module(getattr(random, _name), getattr(random.Random, _name))
    row_for(getattr(random, _name)).refuse = Breaking(PYTHON_RANDOM, f"random.{_name}")
