"""How symbolic numbers are written: as guards, as code, as nodes of the graph."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.events import Location
from onegraph.capture.guards.guard import ShapeCondition
from onegraph.capture.guards.predicates import Portable, Predicate, unpaired
from onegraph.capture.guards.source import Source, is_drawn, written
from onegraph.capture.heap.type_rules import Rebuilding
from onegraph.capture.pyobject.exact_types import isinstance
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


def size_text(source: Source, dim: int) -> str:
    return f"{written(source)}.size({dim})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the value of a symbol is read: dimension `dim` of the input at `source`."""

    source: Source
    dim: int
    tensor: Any


class Evaluated(Portable):
    """What a function gives for expressions of numbers.

    They come as nested pairs, where there are several: numbers themselves, and tensors with the dimensions to look at.
    """

    def __init__(self, fact: Fact, dims: tuple[int | None, ...]) -> None:
        self.fact = fact
        self.dims = dims
        self._evaluate: Callable[[Sequence[Any]], Any] | None = None

    def __call__(self, value: Any) -> Any:
        evaluate = self._evaluate
        if evaluate is None:
            evaluate = self._evaluate = self.fact.evaluator()
        if self.dims == (None,):
            return evaluate((value,))
        found = zip(unpaired(value, len(self.dims)), self.dims, strict=True)
        return evaluate([v if dim is None else v.shape[dim] for v, dim in found])

    def portable(self) -> Evaluated:
        return type(self)(self.fact, self.dims)


class Asked(Evaluated, Predicate):
    """What was asked of numbers has the same answer."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked) and self.fact == other.fact

    def __hash__(self) -> int:
        return hash(self.fact)

    def __call__(self, value: Any) -> bool:
        return bool(super().__call__(value) == self.fact.answer)

    def text(self, *what: str) -> str:
        found = zip(self.fact.symbols, what, self.dims, strict=True)
        return self.fact.text({name: w if dim is None else f"{w}.size({dim})" for name, w, dim in found})


def sizes_text(symbols: Symbols) -> str:
    """The symbols of sizes, where they are found, and their conditions."""
    hints, places = symbols.sizes.hints, symbols.places.items()
    found = [f"{symbol} is {size_text(place.source, place.dim)}, now {hints[symbol]}" for symbol, place in places]
    return "\n".join([*found, *(condition.text for condition in symbols.conditions(None))])


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
        #: Told of a fact about numbers that are drawn at random, which nobody can guard.
        self.note_drawn: Callable[[Fact | Given], None] = lambda fact: None
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
        if any(map(self._is_drawn, [fact] if isinstance(fact, Given) else fact.symbols)):
            self.note_drawn(fact)
            return
        if isinstance(fact, Given):
            self.guard(self.numbers.places[fact], "equal", fact.hint)
            return
        fact = fact.substitute(self.numbers.written)
        (first, *others), dims = self._found(fact)
        if others:
            self.guard(first, "together", (tuple(others), Asked(fact, dims)))
        else:
            self.guard(first, "check", Asked(fact, dims))

    def _is_drawn(self, symbol: Given | Symbol) -> bool:
        return isinstance(symbol, Given) and is_drawn(self.numbers.places[symbol])

    def place_text(self, rebuild: Rebuilding, symbol: Given | Symbol) -> str:
        """The residual code's expression for a symbol as facts know it."""
        source, dim = self._read(symbol)
        return rebuild.source(source) if dim is None else f"{rebuild.source(source)}.shape[{dim}]"

    def _found(self, fact: Fact) -> tuple[list[Source], tuple[int | None, ...]]:
        """Where the numbers are found from which a fact is computed."""
        found = list(map(self._read, fact.symbols))
        return [source for source, _ in found], tuple(dim for _, dim in found)

    def _stem(self, number: Symbol) -> Step:
        """The step that computes an integer as Python does."""
        if number not in self._steps_of:
            fact = self._stem_fact(number)
            sources, dims = self._found(fact)
            self._steps_of[number] = ("computed", tuple(sources), Evaluated(fact, dims))
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
                return self.scalars.text(rebuild, value)
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
                factors.append(self.scalars.text(rebuild, atom))
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
                node = self._index_node(recorder, value)
                if isinstance(node, torch.fx.Node):
                    node.meta.setdefault("example_value", torch.SymInt(SizeNode(self.sizes, value)))
                return node
            case Float() if value in self.scalars.nodes:
                return self.scalars.argument(value)
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
            return self.scalars.argument(atom)
        if isinstance(atom, Symbol):
            if atom in self.numbers.values or atom in self.sizes.stems:
                real, dim = self.numbers.carrier(recorder, atom), 0
            else:
                real, dim = self.places[atom].tensor, self.places[atom].dim
            tensor = recorder.nodes[id(recorder.fake.fakeify(real))]
            return recorder.number(atom, torch.ops.aten.sym_size.int, (tensor, dim))
        a, b = self._index_node(recorder, atom.a), self._index_node(recorder, atom.b)
        return recorder.number(atom, NODE_FUNCTIONS[atom.op], (a, b))
