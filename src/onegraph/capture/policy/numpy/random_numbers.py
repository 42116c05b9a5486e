"""NumPy's random numbers: calls of its generators are draws of the residual code, and arrays inputs of the graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from onegraph.capture.breaks import NUMPY_RANDOM, GraphBreak
from onegraph.capture.calls.registry import LATE_ROWS, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Drawn, Through
from onegraph.capture.policy.numpy.scalars import KINDS
from onegraph.capture.policy.python.random_numbers import constant, found_at, least_of, refused
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.symbolic.generator_states import Kind
from onegraph.capture.symbolic.random_draws import LARGEST_INTEGER, Draw, is_known
from onegraph.torchlib.arrays.array import Array
from onegraph.torchlib.arrays.elements import as_tensor
from onegraph.torchlib.state import untraced

GENERATOR = Kind(
    copy.deepcopy,
    lambda generator: generator.bit_generator.state,
    lambda generator, state: setattr(generator.bit_generator, "state", state),
)
LEGACY = Kind(
    copy.deepcopy,
    lambda generator: generator.get_state(legacy=False),
    lambda generator, state: generator.set_state(state),
)
#: The methods that draw. Others look at the state of the generator, or make generators of it.
METHODS = """random random_sample rand randn randint integers tomaxint random_integers uniform normal standard_normal
choice beta exponential standard_exponential standard_gamma gamma f noncentral_f chisquare noncentral_chisquare
standard_cauchy standard_t vonmises pareto weibull power laplace gumbel logistic lognormal rayleigh wald triangular
binomial negative_binomial poisson zipf geometric hypergeometric logseries multivariate_normal multinomial
multivariate_hypergeometric dirichlet permutation seed""".split()


def own_generator() -> Any:
    """The generator of the module's functions."""
    return np.random.random_sample.__self__  # type: ignore[attr-defined]


def scalar_as_tensor(scalar: Any) -> Any:
    """The tensor that holds one of NumPy's scalars."""
    return as_tensor(np.asarray(scalar))


def argument(tracer: Tracing, value: Any, broken: GraphBreak) -> Any:
    """A copy of an argument: as of Python's generators, or a type of elements."""
    if isinstance(value, np.dtype) or type(value) in KINDS or isinstance(value, type):
        return value
    return constant(tracer, value, broken)


def drawn(tracer: Tracing, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of a generator gives for constants: symbols, and arrays that are inputs of the graph.

    Raises:
        GraphBreak: it gives something else, or the generator is of another class.
    """
    generator, *given = args
    real = tracer.world.real(generator)
    broken = GraphBreak(NUMPY_RANDOM, name=f"numpy.random.{function.__name__}")
    legacy = type(real) is np.random.RandomState
    if not (legacy or type(real) is np.random.Generator) or refused(tracer) or not tracer.world.captures_arrays:
        raise broken
    source = found_at(tracer, real, own_generator(), broken)
    given = [argument(tracer, value, broken) for value in given]
    named = {name: argument(tracer, value, broken) for name, value in kwargs.items()}
    draw = Draw(function, source, tuple(given), named)
    found = tracer.random.draw(LEGACY if legacy else GENERATOR, real, draw)
    place = Drawn(len(tracer.random.made) - 1)
    with untraced():
        of_scalar = type(found) in KINDS
        tensor = scalar_as_tensor(found) if of_scalar else as_tensor(found)
    if tensor is not None and not tracer.open_levels:
        through = Through(place, scalar_as_tensor if of_scalar else as_tensor)
        return Array(tracer.random.tensor(through, tensor), is_scalar=of_scalar)
    if not is_known(found) or type(found) is int and abs(found) >= LARGEST_INTEGER:
        raise broken
    return tracer.random.value(found, least=least_of((*given, *named.values())))


def shuffled(generator: Any, count: int) -> Any:
    """The order of so many rows behind a shuffle."""
    order = np.arange(count)
    generator.shuffle(order)
    return order


def rows_of(tracer: Tracing, array: Any, broken: GraphBreak) -> int:
    """How many rows an array has, if that is known."""
    if not isinstance(array, Array) or array.is_scalar or not array.tensor.dim():
        raise broken
    return int(tracer.numbers.concrete(array.tensor.shape[0], "argument of a draw"))


def _draws(function: Callable[..., Any]) -> None:
    @policy(function)
    def draw(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return drawn(tracer, function, args, kwargs)


def _chooses_rows(function: Callable[..., Any]) -> None:
    @policy(function)
    def choose(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Of an array, the numbers of its rows are drawn."""
        if len(args) < 2 or not isinstance(args[1], Array):
            return drawn(tracer, function, args, kwargs)
        broken = GraphBreak(NUMPY_RANDOM, name=f"numpy.random.{function.__name__}")
        generator, array, *others = args
        if kwargs.keys() & {"axis", "shuffle"} or len(others) > 3:
            raise broken
        return array[drawn(tracer, function, (generator, rows_of(tracer, array, broken), *others), kwargs)]


def _shuffles(function: Callable[..., Any]) -> None:
    @policy(function)
    def shuffle(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The rows of an array are written to anew, in an order that is drawn."""
        broken = GraphBreak(NUMPY_RANDOM, name="numpy.random.shuffle")
        if len(args) != 2 or kwargs:
            raise broken
        generator, array = args
        order = drawn(tracer, shuffled, (generator, rows_of(tracer, array, broken)), {})
        array[...] = array[order]


def _of_module(function: Callable[..., Any], method: Any) -> None:
    @policy(function)
    def draw(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tracer.call(method, (own_generator(), *args), kwargs)


def _makes(function: Callable[..., Any]) -> None:
    @policy(function)
    def make(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        broken = GraphBreak(NUMPY_RANDOM, name=f"numpy.random.{function.__name__}")
        if kwargs or len(args) != 1 or args[0] is None or refused(tracer):
            raise broken
        return tracer.random.generator(function, tuple([constant(tracer, value, broken) for value in args]))


def fill() -> None:
    """NumPy imports its random numbers when they are first used, and so do we."""
    for kind in (np.random.Generator, np.random.RandomState):
        own = vars(kind)
        for name in METHODS:
            if name in own:
                (_chooses_rows if name in ("choice", "permutation") else _draws)(own[name])
        _shuffles(own["shuffle"])
    for name, method in (("seed", "seed"), ("sample", "random_sample"), ("ranf", "random_sample")):
        _of_module(getattr(np.random, name), vars(np.random.RandomState)[method])
    _makes(np.random.default_rng)
    _makes(np.random.RandomState)


LATE_ROWS["numpy.random"] = fill
