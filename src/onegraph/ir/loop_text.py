"""The loop IR as text: `format_program` prints it, `parse_program` reads it back. The grammar stands in `loop`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping

from onegraph.base.text import Printer
from onegraph.ir.index import Index, Symbol, apply
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Argument,
    Bitcast,
    Block,
    Buffer,
    BufferArgument,
    Cast,
    Check,
    Constant,
    Coordinates,
    Extern,
    IndexValue,
    Kernel,
    Let,
    Literal,
    Load,
    Local,
    Loop,
    Named,
    Offset,
    Operand,
    Place,
    Program,
    SizeOf,
    Statement,
    Step,
    Store,
    Value,
    Vector,
    View,
)
from onegraph.ir.scalar import REDUCTIONS
from onegraph.ir.types import TensorType, dtype_named

# ---- printing --------------------------------------------------------------------------------------------------------


def format_program(program: Program) -> str:
    out = Printer()
    out.line(f"program({', '.join(map(str, program.inputs))}):")
    with out.indented():
        for size in program.sizes:
            out.line(f"size {size.name} = {size.buffer}[{size.dim}]")
        for buffer in program.buffers:
            shape, strides = (", ".join(map(str, x)) for x in (buffer.type.shape, buffer.type.strides))
            constant = " constant" if buffer.constant else ""
            place = f" on {buffer.device}" if buffer.device else ""
            out.line(f"buffer {buffer.name}: {buffer.type.dtype}[{shape}] stride ({strides}){constant}{place}")
        for step in program.steps:
            _print_step(out, step)
        out.line(f"return {', '.join(_output(item) for item in program.outputs)}".rstrip())
    return out.text()


def _output(item: str | Index | None) -> str:
    return f"({item})" if isinstance(item, Index) else str(item)


def format_kernel(kernel: Kernel) -> str:
    out = Printer()
    _print_step(out, kernel)
    return out.text()


def _print_step(out: Printer, step: Step) -> None:
    match step:
        case View(name, base, offset):
            out.line(f"{name} = view {base} offset {offset}")
        case Extern(operator, args, kwargs, outputs, several, ordered):
            named = [f"({each})" if isinstance(each, Symbol) else str(each) for each in outputs]
            names = ", ".join(named) + ("," if several else "")
            given = [_argument(a) for a in args] + [f"{name}={_argument(a)}" for name, a in kwargs]
            out.line(f"{names} = {'ordered ' if ordered else ''}extern {operator}({', '.join(given)})")
        case Kernel(name, axes, body, vector, locals):
            wide = f" vector {vector.axis} by {vector.width}" if vector is not None else ""
            wide += f" across {vector.across}" if vector is not None and vector.across is not None else ""
            out.line(f"kernel {name}({_axes(axes)}){wide}:")
            with out.indented():
                for local in locals:
                    out.line(f"local {local.name}: {local.dtype}[{local.size}]")
                _print_block(out, body)


def _axes(axes: tuple[Symbol, ...]) -> str:
    return ", ".join(f"{axis.name}: {axis.extent}" for axis in axes)


def _print_block(out: Printer, block: Block) -> None:
    for statement in block:
        match statement:
            case Let(name, dtype, value):
                out.line(f"{name}: {dtype} = {_value(value)}")
            case Accumulate(name, dtype, op, args):
                out.line(f"{name}: {dtype} = {op} over {', '.join(map(repr_operand, args))}")
            case Store(buffer, place, value, False):
                out.line(f"store {_place(buffer, place)} = {repr_operand(value)}")
            case Store(buffer, place, value, True):
                out.line(f"add {_place(buffer, place)} += {repr_operand(value)}")
            case Check(condition, error, message):
                out.line(f"check {repr_operand(condition)} else {error} {message!r}")
            case Loop(axes, body):
                out.line(f"for {_axes(axes)}:")
                with out.indented():
                    _print_block(out, body)


def repr_operand(operand: Operand) -> str:
    return operand if isinstance(operand, str) else repr(operand)


def _value(value: Value) -> str:
    match value:
        case Constant(literal):
            return repr(literal)
        case IndexValue(index):
            return f"index {index}"
        case Load(buffer, place, None):
            return f"load {_place(buffer, place)}"
        case Load(buffer, place, condition):
            return f"load {_place(buffer, place)} if {condition}"
        case Apply(op, args):
            return f"{op}({', '.join(map(repr_operand, args))})"
        case Cast(arg):
            return f"cast {arg}"
        case Bitcast(arg):
            return f"bitcast {arg}"


def _place(buffer: str, place: Place) -> str:
    if isinstance(place, Offset):
        return f"{buffer} @ {place.index}"
    return f"{buffer}[{', '.join(map(str, place.indices))}]"


def _argument(value: Argument) -> str:
    match value:
        case BufferArgument(name):
            return name
        case Index():
            return f"index({value})" if value.constant is None else str(value)
        case Named(kind, name):
            return f"{kind}({name!r})"
        case tuple():
            return f"[{', '.join(map(_argument, value))}]"
    return repr(value)


# ---- parsing ---------------------------------------------------------------------------------------------------------


class ParseError(ValueError):
    """Text that is not a loop program; the message quotes the line."""


class _Lines:
    """Lines with their indentation, read one by one."""

    def __init__(self, text: str) -> None:
        lines = (line.split("#")[0].rstrip() for line in text.splitlines())
        self.lines = [(len(line) - len(line.lstrip()), line.strip()) for line in lines if line.strip()]
        self.at = 0

    def peek(self) -> tuple[int, str] | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def next(self) -> str:
        self.at += 1
        return self.lines[self.at - 1][1]

    def block(self, above: int) -> Iterator[str]:
        """The lines that are indented further than `above`."""
        while (line := self.peek()) is not None and line[0] > above:
            yield self.next()

    @property
    def indentation(self) -> int:
        return self.lines[self.at - 1][0]


def parse_program(text: str) -> Program:
    lines = _Lines(text)
    inputs = _match(r"program\((.*)\):", lines.next()).group(1)
    symbols: dict[str, Symbol] = {}
    buffers: list[Buffer] = []
    sizes: list[SizeOf] = []
    steps: list[Step] = []
    outputs: tuple[str | Index | None, ...] = ()
    for line in lines.block(lines.indentation):
        if found := re.fullmatch(r"size (\w+) = (\w+)\[(\d+)\]", line):
            sizes.append(SizeOf(found[1], found[2], int(found[3])))
        elif found := re.fullmatch(r"buffer (\w+): (\w+)\[(.*)\] stride \((.*?)\)( constant)?(?: on (\S+))?", line):
            type = TensorType(dtype_named(found[2]), _indices(found[3], symbols), _indices(found[4], symbols))
            buffers.append(Buffer(found[1], type, bool(found[5]), found[6] or ""))
        elif line.startswith("return"):
            outputs = tuple(_parse_output(item, symbols) for item in _split(line.removeprefix("return")))
        else:
            steps.append(_parse_step(line, lines, symbols))
    names = {buffer.name for buffer in buffers}
    given = tuple(item if item in names else Symbol(item) for item in _split(inputs))
    return Program(given, outputs, tuple(buffers), tuple(steps), tuple(sizes))


def parse_kernel(text: str) -> Kernel:
    lines = _Lines(text)
    step = _parse_step(lines.next(), lines, {})
    if not isinstance(step, Kernel):
        raise ParseError(f"not a kernel: {text!r}")
    return step


def _match(pattern: str, line: str) -> re.Match[str]:
    found = re.fullmatch(pattern, line)
    if found is None:
        raise ParseError(f"expected {pattern}, found {line!r}")
    return found


def _split(text: str) -> list[str]:
    """The pieces between commas that are in no brackets."""
    pieces, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            pieces.append(current.strip())
            current = ""
        else:
            current += character
    pieces.append(current.strip())
    return [piece for piece in pieces if piece]


def _parse_output(item: str, symbols: Mapping[str, Symbol]) -> str | Index | None:
    if item == "None":
        return None
    return _index(item, symbols) if item.startswith("(") else item


def _parse_result(item: str, symbols: Mapping[str, Symbol]) -> str | Symbol | None:
    output = _parse_output(item, symbols)
    return output.symbol if isinstance(output, Index) else output


def _parse_step(line: str, lines: _Lines, symbols: Mapping[str, Symbol]) -> Step:
    if found := re.fullmatch(r"(\w+) = view (\w+) offset (.*)", line):
        return View(found[1], found[2], _index(found[3], symbols))
    if found := re.fullmatch(r"(.*) = (ordered )?extern ([\w.]+)\((.*)\)", line):
        names = tuple(_parse_result(name, symbols) for name in _split(found[1]))
        call = ast.parse(f"f({found[4]})", mode="eval").body
        assert isinstance(call, ast.Call)
        args = tuple(_parse_argument(node, symbols) for node in call.args)
        kwargs = tuple((str(k.arg), _parse_argument(k.value, symbols)) for k in call.keywords)
        return Extern(found[3], args, kwargs, names, found[1].endswith(","), found[2] is not None)
    head = _match(r"kernel (\w+)\((.*)\)(?: vector (\w+) by (\d+)(?: across (\w+))?)?:", line)
    scope = dict(symbols)
    axes = _parse_axes(head[2], scope)
    locals: list[Local] = []
    body = _parse_block(lines, lines.indentation, scope, locals)
    across = _axis_named(head[5], axes, body) if head[5] else None
    vector = Vector(_axis_named(head[3], axes, body), int(head[4]), across) if head[3] else None
    return Kernel(head[1], axes, body, vector, tuple(locals))


def _axis_named(name: str, axes: tuple[Symbol, ...], block: Block) -> Symbol:
    for axis in axes:
        if axis.name == name:
            return axis
    for statement in block:
        if isinstance(statement, Loop):
            try:
                return _axis_named(name, statement.axes, statement.body)
            except ParseError:
                continue
    raise ParseError(f"no axis is called {name}")


def _parse_axes(text: str, scope: dict[str, Symbol]) -> tuple[Symbol, ...]:
    axes = []
    for piece in _split(text):
        name, extent = piece.split(": ", 1)
        axes.append(Symbol(name, _index(extent, scope)))
    scope.update({axis.name: axis for axis in axes})
    return tuple(axes)


def _parse_block(lines: _Lines, above: int, scope: dict[str, Symbol], locals: list[Local]) -> Block:
    statements: list[Statement] = []
    for line in lines.block(above):
        if found := re.fullmatch(r"local (\w+): (\w+)\[(\d+)\]", line):
            locals.append(Local(found[1], dtype_named(found[2]), int(found[3])))
        elif found := re.fullmatch(r"for (.*):", line):
            inner = dict(scope)
            axes = _parse_axes(found[1], inner)
            loop = Loop(axes, _parse_block(lines, lines.indentation, inner, locals))
            statements.append(loop)
            scope.update({s.name: Symbol(s.name, signed=True) for s in loop.body if isinstance(s, Accumulate)})
        else:
            statements.append(_parse_statement(line, scope))
            last = statements[-1]
            if isinstance(last, Let | Accumulate):
                scope[last.name] = Symbol(last.name, signed=True)
    return tuple(statements)


def _parse_statement(line: str, scope: Mapping[str, Symbol]) -> Statement:
    if found := re.fullmatch(r"store (.*) = (\S+)", line):
        return Store(*_parse_place(found[1], scope), _operand(found[2]))
    if found := re.fullmatch(r"add (.*) \+= (\S+)", line):
        return Store(*_parse_place(found[1], scope), _operand(found[2]), True)
    if found := re.fullmatch(r"check (\S+) else (\w+) (.*)", line):
        return Check(_operand(found[1]), found[2], ast.literal_eval(found[3]))
    found = _match(r"(\w+): (\w+) = (.*)", line)
    name, dtype, value = found[1], dtype_named(found[2]), found[3]
    if (reduction := re.fullmatch(r"(\w+) over (.*)", value)) and reduction[1] in REDUCTIONS:
        return Accumulate(name, dtype, reduction[1], tuple(map(_operand, _split(reduction[2]))))
    return Let(name, dtype, _parse_value(value, scope))


def _parse_value(text: str, scope: Mapping[str, Symbol]) -> Value:
    word, _, rest = text.partition(" ")
    match word:
        case "index":
            return IndexValue(_index(rest, scope))
        case "cast":
            return Cast(rest)
        case "bitcast":
            return Bitcast(rest)
        case "load":
            place, _, condition = rest.partition(" if ")
            return Load(*_parse_place(place, scope), condition or None)
    if found := re.fullmatch(r"([a-z]\w*)\((.*)\)", text):
        return Apply(found[1], tuple(map(_operand, _split(found[2]))))
    return Constant(_literal(text))


def _parse_place(text: str, scope: Mapping[str, Symbol]) -> tuple[str, Place]:
    buffer, at, offset = text.partition(" @ ")
    if at:
        return buffer, Offset(_index(offset, scope))
    found = _match(r"(\w+)\[(.*)\]", text)
    return found[1], Coordinates(_indices(found[2], scope))


def _operand(text: str) -> Operand:
    return text if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in _WORDS else _literal(text)


_WORDS: dict[str, Literal] = {"True": True, "False": False, "inf": float("inf"), "nan": float("nan")}


def _literal(text: str) -> Literal:
    if text.lstrip("-") in _WORDS:
        value = _WORDS[text.lstrip("-")]
        return -value if text.startswith("-") else value
    number: Literal = ast.literal_eval(text)
    return number


def _indices(text: str, scope: Mapping[str, Symbol]) -> tuple[Index, ...]:
    return tuple(_index(piece, scope) for piece in _split(text))


def _index(text: str, scope: Mapping[str, Symbol]) -> Index:
    return _index_node(ast.parse(text.strip(), mode="eval").body, scope)


_ARITHMETIC: dict[type[ast.operator], Callable[[Index, Index], Index]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _index_node(node: ast.expr, scope: Mapping[str, Symbol]) -> Index:
    match node:
        case ast.Constant(value=int(value)):
            return Index.of(value)
        case ast.Name(id=name):
            return Index.of(scope.get(name) or Symbol(name))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_index_node(operand, scope)
        case ast.Call(func=ast.Name(id=name), args=[a, b]):
            return apply(name, _index_node(a, scope), _index_node(b, scope))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_index_node(left, scope), _index_node(right, scope))
    raise ParseError(f"not an index expression: {ast.unparse(node)}")


def _parse_argument(node: ast.expr, symbols: Mapping[str, Symbol]) -> Argument:
    match node:
        case ast.Name(id="inf" | "nan" as word):
            return float(word)
        case ast.Name(id=name):
            return BufferArgument(name)
        case ast.Call(func=ast.Name(id="index"), args=[inner]):
            return _index_node(inner, symbols)
        case ast.Call(func=ast.Name(id=kind), args=[ast.Constant(value=str(name))]):
            return Named(kind, name)
        case ast.List(elts=items):
            return tuple(_parse_argument(item, symbols) for item in items)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=word)):
            return -float(word)
    value = ast.literal_eval(node)
    return Index.of(value) if type(value) is int else value
