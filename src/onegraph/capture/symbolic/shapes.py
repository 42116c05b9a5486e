"""Which sizes become symbolic, and how symbolic numbers are written: as guards, as code, as nodes of the graph."""

from __future__ import annotations

import builtins
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from onegraph.base.events import Location
from onegraph.capture.guards.guard import ShapeCondition
from onegraph.capture.guards.predicates import Predicate, unpaired
from onegraph.capture.guards.source import Const, Source, root_of, written
from onegraph.capture.heap.type_rules import Rebuilding
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.weakly_known import Known
from onegraph.capture.symbolic.changing import Numbers
from onegraph.capture.symbolic.scalars import Scalars
from onegraph.capture.symbolic.size_marks import Promised, SizeMarks, marks_of
from onegraph.ir.index import Index, Symbol
from onegraph.torchlib.shapes import (
    SIGNS,
    Computed,
    Condition,
    Fact,
    Float,
    Given,
    SizeNode,
    Sizes,
    Whole,
    is_symbolic,
)
from onegraph.torchlib.size_expression import shown
from onegraph.torchlib.small_sizes import SMALL

Step = tuple[Any, ...]
GUARD_STEPS = {"//": "IFLOORDIV", "%": "IMOD", "min": "IMIN", "max": "IMAX"}
GUARD_COMPARISONS = {"==": "IEQ", "!=": "INE", "<": "ILT", "<=": "ILE"}
NODE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "min": torch.sym_min,
    "max": torch.sym_max,
}


OFTEN = 3


@dataclass(slots=True)
class History:
    """The sizes that the traces of one code object have seen at each source."""

    sizes: dict[Source, tuple[int, ...]] = field(default_factory=dict)
    changing: dict[Source, set[int]] = field(default_factory=dict)
    #: The last number, a weak reference to its owner, and how often it was another one.
    numbers: dict[Source, tuple[int | float, Callable[[], Any], int]] = field(default_factory=dict)
    changing_numbers: set[Source] = field(default_factory=set)
    #: Whether floating-point numbers stay constants: the backend has failed on a graph that takes them.
    constant_floats: bool = False
    #: Whether graphs make checks of data: one of them does what cannot be undone where a check fails.
    makes_checks: bool = True

    def learn(self, other: History) -> None:
        """Know what the traces of equal code have seen."""
        self.sizes.update(dict(other.sizes))  # other threads add to it
        self.numbers.update(dict(other.numbers))
        self.changing_numbers.update(set(other.changing_numbers))
        for source, dims in list(other.changing.items()):
            self.changing.setdefault(source, set()).update(dims)
        self.constant_floats |= other.constant_floats
        self.makes_checks &= other.makes_checks

    def policy(self, dynamic: bool | None, constant: tuple[type, ...] = ()) -> ShapePolicy:
        return ShapePolicy(self, dynamic, constant)


@dataclass(frozen=True, slots=True)
class ShapePolicy:
    """`dynamic` True: every size above one is symbolic; None: those that were seen to change; False: none.

    Numbers of the types in `constant` are none, whether they change or not. `shared`: sizes that are equal now are one.
    """

    history: History
    dynamic: bool | None
    constant: tuple[type, ...] = ()
    shared: bool = True

    def symbolic_dims(self, source: Source, tensor: torch.Tensor) -> tuple[int, ...]:
        """The dimensions of an input that get a symbol: what it is marked with goes before what is known of it."""
        if builtins.isinstance(tensor, torch.nn.Parameter):
            return ()
        marks = marks_of(tensor)
        found = (marks.dynamic | marks.weak | {*self._changing_dims(source, tensor)}) - marks.static
        return tuple(dim for dim in sorted(found) if dim < tensor.dim())

    def _changing_dims(self, source: Source, tensor: torch.Tensor) -> tuple[int, ...]:
        sizes = tuple(tensor.shape)
        if self.dynamic is False:
            return ()
        if self.dynamic:
            return tuple(dim for dim, size in enumerate(sizes) if size > 1)
        seen = self.history.sizes.setdefault(source, sizes)
        changing = self.history.changing.setdefault(source, set())
        if len(seen) == len(sizes):
            changing.update(dim for dim, (old, new) in enumerate(zip(seen, sizes, strict=True)) if old != new)
        return tuple(dim for dim in sorted(changing) if dim < len(sizes))

    def will_change(self, source: Source, sizes: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
        """Note the sizes of an input that the program changes; whether any of them gets a symbol by that."""
        if self.dynamic is not None or len(sizes) != len(after):
            return False
        found = {dim for dim, (old, new) in enumerate(zip(sizes, after, strict=True)) if is_other(old, new)}
        changing = self.history.changing.setdefault(source, set())
        new = found - changing
        changing |= found
        return bool(new)

    def is_changing_number(self, source: Source, value: int | float, owner: Any) -> bool:
        """Whether a number gets a symbol: it was seen to change.

        An attribute may be a constant of its object, and have another value in each of a few. It changes if it does so
        in one object, if its last object is gone, or if it has done so often. What is known by identity is one object:
        another one may have come to its address.
        """
        if self.dynamic is False or type(value) in self.constant:
            return False
        last, holder, changes = self.history.numbers.get(source, (value, _nobody, 0))
        if repr(last) != repr(value):
            changes += 1
            holder_now = holder()
            others = not isinstance(root_of(source), Const)
            if holder_now is owner or others and (holder_now is None or changes >= OFTEN):
                self.history.changing_numbers.add(source)
        self.history.numbers[source] = value, weakly(owner), changes
        known = type(value) is int or not self.history.constant_floats
        return known and source in self.history.changing_numbers

    def keep_floats_constant(self) -> bool:
        """Make no symbols of floating-point numbers from here on; whether that is new for this code."""
        found = any(type(self.history.numbers[source][0]) is float for source in self.history.changing_numbers)
        known, self.history.constant_floats = self.history.constant_floats, True
        return found and not known


def is_other(size: Any, after: Any) -> bool:
    """Whether a size that is a constant is another one now, without asking a symbol for its value."""
    return type(size) is int and (type(after) is not int or size != after)


def weakly(owner: Any) -> Callable[[], Any]:
    """A reference to an object that does not keep it alive, if there is such a one; to None, a plain one."""
    if owner is None:
        return _nobody
    try:
        return Known(owner)
    except TypeError:
        return object  # which gives none that is known


def _nobody() -> None:
    return None


def size_text(source: Source, dim: int) -> str:
    return f"{written(source)}.size({dim})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the value of a symbol is read: dimension `dim` of the input at `source`."""

    source: Source
    dim: int
    tensor: Any


class Evaluated:
    """What a function gives for expressions of numbers.

    They come as nested pairs, where there are several: numbers themselves, and tensors with the dimensions to look at.
    """

    def __init__(self, fact: Fact, dims: tuple[int | None, ...]) -> None:
        self.fact = fact
        self.dims = dims
        self._evaluate = fact.evaluator()
        self._is_one = dims == (None,)

    def evaluated(self, value: Any) -> Any:
        if self._is_one:
            return self._evaluate((value,))
        found = zip(unpaired(value, len(self.dims)), self.dims, strict=True)
        return self._evaluate([v if dim is None else v.shape[dim] for v, dim in found])


class Asked(Evaluated, Predicate):
    """What was asked of numbers has the same answer."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked) and self.fact == other.fact

    def __hash__(self) -> int:
        return hash(self.fact)

    def __call__(self, value: Any) -> bool:
        return bool(self.evaluated(value) == self.fact.answer)

    def text(self, *what: str) -> str:
        found = zip(self.fact.symbols, what, self.dims, strict=True)
        return self.fact.text({name: w if dim is None else f"{w}.size({dim})" for name, w, dim in found})


class Symbols:
    """The symbols of one trace, and where their values come from.

    Where symbols are shared, inputs with equal sizes have one, and a guard that the sizes stay equal: programs combine
    such inputs.
    """

    def __init__(self, sizes: Sizes, guard: Callable[[Source, Any, Any], None], shared: bool) -> None:
        self.sizes = sizes
        self._shared = shared
        self.places: dict[Symbol, Place] = {}
        self.numbers = Numbers(sizes)
        self.guard = guard
        sizes.note = self._note
        self.scalars = Scalars(sizes)
        self._by_value: dict[int, torch.SymInt] = {}
        self._conditions: list[ShapeCondition] = []
        self._promised: list[tuple[Promised, bool]] = []  # and whether it is within its bounds
        #: The integers that functions compute, as guards know them: their symbols, and the steps that compute them.
        self._stems: dict[Symbol, Symbol] = {}
        self._steps_of: dict[Symbol, Step] = {}

    def of_input(self, source: Source, tensor: torch.Tensor, dims: tuple[int, ...]) -> dict[int, torch.SymInt]:
        """The symbolic sizes of an input, by dimension."""
        made = {dim: self._size(source, tensor, dim) for dim in dims}
        if made:
            self._promise(source, marks_of(tensor), made)
        return made

    def _promise(self, source: Source, marks: SizeMarks, made: dict[int, torch.SymInt]) -> None:
        """Hold marked sizes to what was said of them."""
        bounds = {each.dim: each for each in marks.ranges}
        for dim in marks.dynamic & made.keys():
            known = partial(self._constant, made[dim].node.index)
            promised = Promised(size_text(source, dim), made[dim], bounds.get(dim), known)
            self._promised.append((promised, promised.is_within()))

    def _constant(self, size: Index) -> int | None:
        return self.sizes.simplify(size).constant

    def _size(self, source: Source, tensor: torch.Tensor, dim: int) -> torch.SymInt:
        value = tensor.shape[dim]
        known = self._by_value.get(value)
        if known is None or known.node.index.symbol is None:  # none yet, or one that was decided in the meantime
            known = self.sizes.new(value, f"s{len(self.places)}", may_be_small=True)
            if self._shared and value not in SMALL:  # many sizes are 1 by chance
                self._by_value[value] = known
            self.places[known.node.index.symbol] = Place(source, dim, tensor)
        else:
            place = self.places[known.node.index.symbol]
            steps = (("size", place.source, place.dim), ("size", source, dim), ("IEQ",))
            text = f"{size_text(place.source, place.dim)} == {size_text(source, dim)}"
            self._conditions.append(ShapeCondition(steps, text))
        return known

    def strides_hold(self, source: Source, strides: tuple[Any, ...]) -> tuple[int | None, ...]:
        """Guard the strides that depend on symbols; the result has None for them."""
        fixed: list[int | None] = []
        for dim, stride in enumerate(strides):
            if isinstance(stride, torch.SymInt):
                steps = (*self._steps(stride.node.index), ("stride", source, dim), ("IEQ",))
                text = f"{written(source)}.stride({dim}) == {self._in_sources(str(self._plainly(stride.node.index)))}"
                self._conditions.append(ShapeCondition(steps, text))
                fixed.append(None)
            else:
                fixed.append(stride)
        return tuple(fixed)

    def _note(self, fact: Fact | Given) -> None:
        """Guard a fact about numbers, or that one is what it is now."""
        if isinstance(fact, Given):
            self.guard(self.numbers.places[fact], "equal", fact.hint)
            return
        fact = fact.substitute(self.numbers.written)
        (first, *others), dims = self._found(fact)
        if others:
            self.guard(first, "together", (tuple(others), Asked(fact, dims)))
        else:
            self.guard(first, "check", Asked(fact, dims))

    def _found(self, fact: Fact) -> tuple[list[Source], tuple[int | None, ...]]:
        """Where the numbers are found from which a fact is computed."""
        found = list(map(self._read, fact.symbols))
        return [source for source, _ in found], tuple(dim for _, dim in found)

    def _stem(self, number: Symbol) -> Step:
        """The step that computes an integer as Python does."""
        if number not in self._steps_of:
            fact = self._stem_fact(number)
            sources, dims = self._found(fact)
            self._steps_of[number] = ("computed", tuple(sources), Evaluated(fact, dims).evaluated)
        return self._steps_of[number]

    def _stem_fact(self, number: Symbol) -> Fact:
        stem = self.sizes.unfolded(self.sizes.stems[self._stems[number]])
        return Fact(operator.pos, (stem,), None).substitute(self.numbers.written)

    def _plainly(self, value: Index) -> Index:
        """An expression by the integers that the program has in the place of symbols."""
        known = dict(self.numbers.written)
        for symbol in value.symbols & self.sizes.stems.keys():
            number = Symbol(f"w{symbol.name[1:]}")
            self._stems[number], known[symbol] = symbol, Index.of(number) + 2
        return value.substitute(known)

    def _read(self, symbol: Given | Symbol) -> tuple[Source, int | None]:
        """Where the value of a symbol is found, and in which dimension if it is a size."""
        if isinstance(symbol, Given):
            return self.numbers.places[symbol], None
        if symbol in self.numbers.sources:
            return self.numbers.sources[symbol], None
        place = self.places[symbol]
        return place.source, place.dim

    def conditions(self, location: Location | None) -> tuple[ShapeCondition, ...]:
        """All that the sizes must satisfy for the trace to be valid.

        Raises:
            ConstraintViolationError: if a size is a constant that was marked as dynamic.
        """
        asked = tuple(self._as_guard(condition, location) for condition in self.sizes.guards)
        for promised, is_within in self._promised:
            promised.check(is_within, [condition.text for condition in asked])
        return (*self.numbers.conditions(), *self._ranges(), *self._conditions, *asked)

    def size_expression(self, value: torch.SymInt) -> str:
        """A symbolic number by the sizes of inputs, as text."""
        return self._in_sources(str(self._plainly(value.node.index)))

    def _ranges(self) -> Iterator[ShapeCondition]:
        """Which of 0 and 1 the sizes are not."""
        for symbol, place in self.places.items():
            if self.sizes.simplify(Index.of(symbol)).constant is None:
                size, text = ("size", place.source, place.dim), size_text(place.source, place.dim)
                match tuple(self.sizes.small.of(symbol)):
                    case ():
                        yield ShapeCondition((("const", 2), size, ("ILE",)), f"2 <= {text}")
                    case (1,):
                        yield ShapeCondition((("const", 1), size, ("ILE",)), f"1 <= {text}")
                    case (0,):
                        yield ShapeCondition((size, ("const", 1), ("INE",)), f"{text} != 1")

    def _as_guard(self, condition: Condition, location: Location | None) -> ShapeCondition:
        condition = Condition(condition.op, self._plainly(condition.left), self._plainly(condition.right))
        steps = (*self._steps(condition.left), *self._steps(condition.right), (GUARD_COMPARISONS[condition.op],))
        return ShapeCondition(steps, self._in_sources(str(condition)), location)

    def _in_sources(self, text: str) -> str:
        """The text of an expression with the sources of its symbols in place of their names."""
        named = {str(symbol): size_text(place.source, place.dim) for symbol, place in self.places.items()}
        named |= {str(symbol): written(source) for symbol, source in self.numbers.sources.items()}
        named |= {str(number): self._stem_text(number) for number in self._stems}
        return re.sub(r"\b[a-z]+\d+\b", lambda found: named.get(found[0], found[0]), text)

    def _stem_text(self, number: Symbol) -> str:
        fact = self._stem_fact(number)
        read = zip(fact.symbols, *self._found(fact), strict=True)
        return shown(fact.args[0], {s: written(at) if dim is None else size_text(at, dim) for s, at, dim in read})

    # ---- as guard steps ----------------------------------------------------------------------------------------------

    def _steps(self, value: Index) -> Iterator[Step]:
        """Postfix steps for the guards' integer registers."""
        value = self._plainly(value)
        if value.constant is not None:
            yield ("const", value.constant)
            return
        for position, (monomial, coefficient) in enumerate(value.terms):
            yield ("const", coefficient)
            for atom in monomial:
                if isinstance(atom, Symbol) and atom in self.numbers.sources:
                    yield ("int", self.numbers.sources[atom])
                elif isinstance(atom, Symbol) and atom in self._stems:
                    yield self._stem(atom)
                elif isinstance(atom, Symbol):
                    place = self.places[atom]
                    yield ("size", place.source, place.dim)
                else:
                    yield from self._steps(atom.a)
                    yield from self._steps(atom.b)
                    yield (GUARD_STEPS[atom.op],)
                yield ("IMUL",)
            if position:
                yield ("IADD",)

    # ---- as code -----------------------------------------------------------------------------------------------------

    def text(self, rebuild: Rebuilding, value: Any) -> str:
        """The Python expression of a symbolic number."""
        match value:
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self.text(rebuild, value.node.value)
            case Index():
                terms = value.substitute(self.numbers.written).terms
                return " + ".join(self._term(rebuild, *term) for term in terms) or "0"
            case Float() if value in self.scalars.nodes:
                return rebuild.number(self.scalars.nodes[value])
            case Whole() if value in self.sizes.indices and self.sizes.is_fixed(value):
                return str(self.sizes.value(value))
            case Computed(Given() as given, _):
                return rebuild.source(self.numbers.places[given])
            case Computed(function, args) if function in SIGNS and len(args) == 2:
                left, right = (self.text(rebuild, arg) for arg in args)
                return f"(({left}) {SIGNS[function]} ({right}))"
            case Computed(function, args):
                return f"{rebuild.const(function)}({', '.join(self.text(rebuild, arg) for arg in args)})"
            case float() if not math.isfinite(value):
                return rebuild.const(value)
            case Condition(op, left, right):
                return f"({self.text(rebuild, left)}) {op} ({self.text(rebuild, right)})"
        return repr(value)

    def _term(self, rebuild: Rebuilding, monomial: tuple[Any, ...], coefficient: int) -> str:
        factors = [str(coefficient)] if coefficient != 1 or not monomial else []
        for atom in monomial:
            if atom in self.scalars.nodes:
                factors.append(rebuild.number(self.scalars.nodes[atom]))
                continue
            if isinstance(atom, Symbol) and atom in self.numbers.sources:
                factors.append(rebuild.source(self.numbers.sources[atom]))
                continue
            if atom in self.sizes.stems:
                factors.append(f"({self.text(rebuild, self.sizes.stems[atom])} + 2)")
                continue
            if isinstance(atom, Symbol):
                place = self.places[atom]
                factors.append(f"{rebuild.source(place.source)}.shape[{place.dim}]")
                continue
            a, b = self.text(rebuild, atom.a), self.text(rebuild, atom.b)
            if atom.op in ("min", "max"):
                factors.append(f"{rebuild.const(min if atom.op == 'min' else max)}({a}, {b})")
            else:
                factors.append(f"(({a}) {atom.op} ({b}))")
        return " * ".join(factors)

    # ---- as nodes ----------------------------------------------------------------------------------------------------

    def node(self, recorder: Any, value: Any) -> Any:
        """The argument that stands for a symbolic number in the graph; the recorder keeps each expression's node."""
        match value:
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self.node(recorder, value.node.value)
            case Index():
                return self._index_node(recorder, value)
            case Float() if value in self.scalars.nodes:
                return self.scalars.nodes[value]
            case Whole():
                return self._index_node(recorder, self.sizes.index_of(value))
            case Float() if self.sizes.is_known(value) and (self.sizes.is_given(value) or not is_symbolic(value)):
                return self.numbers.taken(recorder, value)
            case Float(function, args):
                node = recorder.number(value, function, tuple(self.node(recorder, arg) for arg in args))
                node.meta.setdefault("example_value", torch.SymFloat(SizeNode(self.sizes, value)))
                return node
            case Condition():
                return self.sizes.holds(value)
        return value

    def _index_node(self, recorder: Any, value: Index) -> Any:
        if value.constant is not None:
            return value.constant
        total = None
        for monomial, coefficient in value.terms:
            term: Any = coefficient
            for atom in monomial:
                factor = self._atom_node(recorder, atom)
                whole = (operator.mul, (term, factor))
                term = factor if term is coefficient and coefficient == 1 else recorder.number(whole, *whole)
            if total is not None:
                whole = (operator.add, (total, term))
                term = recorder.number(whole, *whole)
            total = term
        return total

    def _atom_node(self, recorder: Any, atom: Any) -> Any:
        if atom in self.scalars.nodes:
            return self.scalars.nodes[atom]
        if isinstance(atom, Symbol):
            if atom in self.numbers.values or atom in self.sizes.stems:
                real, dim = self.numbers.carrier(recorder, atom), 0
            else:
                real, dim = self.places[atom].tensor, self.places[atom].dim
            tensor = recorder.nodes[id(recorder.fake.fakeify(real))]
            return recorder.number(atom, torch.ops.aten.sym_size.int, (tensor, dim))
        a, b = self._index_node(recorder, atom.a), self._index_node(recorder, atom.b)
        return recorder.number(atom, NODE_FUNCTIONS[atom.op], (a, b))
