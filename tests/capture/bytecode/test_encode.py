"""Code that is made, not only copied: other names and arguments, new prologues, long jumps, every jump's direction."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType, FunctionType

import pytest

from onegraph.capture.bytecode import FREE_MARK, NULL_FIRST, Bytecode, Handler, Instr, decode, encode


def lend() -> None:  # Its code lends the fields that do not matter; it has no docstring, which is a constant.
    pass


def assemble(*instrs: Instr, handlers: tuple[Handler, ...] = (), args: str = "", **fields: object) -> FunctionType:
    names = tuple(args.split())
    bytecode = Bytecode(lend.__code__, (Instr("RESUME", 0), *instrs), handlers)
    code = encode(bytecode, co_argcount=len(names), co_varnames=names, co_consts=(), **fields)
    return FunctionType(code, globals(), "assembled")


def reencoded(function: Callable[..., object]) -> FunctionType:
    code = encode(decode(function.__code__))
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def callable_pair(load: Instr) -> list[Instr]:
    return [Instr("PUSH_NULL"), load] if NULL_FIRST else [load, Instr("PUSH_NULL")]


def test_arithmetic_and_calls() -> None:
    f = assemble(
        *callable_pair(Instr("LOAD_GLOBAL", "max")),
        Instr("LOAD_FAST", "a"),
        Instr("LOAD_CONST", 10),
        Instr("CALL", 2),
        Instr("LOAD_CONST", 3),
        Instr("BINARY_OP", "*"),
        Instr("RETURN_VALUE"),
        args="a",
    )
    assert (f(4), f(20)) == (30, 60)


def test_keyword_call() -> None:
    f = assemble(
        *callable_pair(Instr("LOAD_GLOBAL", "dict")),
        Instr("LOAD_FAST", "a"),
        Instr("LOAD_CONST", 2),
        Instr("CALL_KW", (2, ("x", "y"))),
        Instr("RETURN_VALUE"),
        args="a",
    )
    assert f(1) == {"x": 1, "y": 2}
    call = next(i for i in decode(f.__code__).instrs if i.op == "CALL_KW")
    assert call.arg == (2, ("x", "y"))


@pytest.mark.parametrize("op", ["POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"])
def test_conditional_jump_backward(op: str) -> None:
    """No version's compiler emits it everywhere, but a layout may ask for it."""
    f = assemble(
        Instr("JUMP", target=4),
        Instr("LOAD_CONST", "back"),
        Instr("RETURN_VALUE"),
        Instr("LOAD_FAST", "a"),
        *([Instr("TO_BOOL")] if op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE") else []),
        Instr(op, target=2),
        Instr("LOAD_CONST", "on"),
        Instr("RETURN_VALUE"),
        args="a",
    )
    taken = {"TRUE": bool, "FALSE": lambda a: not a, "NONE": lambda a: a is None, "NOT_NONE": lambda a: a is not None}
    condition = taken[op.removeprefix("POP_JUMP_IF_")]
    for value in (None, 0, 1, "x", []):
        assert f(value) == ("back" if condition(value) else "on")


def test_bool_on_its_own() -> None:
    f = assemble(Instr("LOAD_FAST", "a"), Instr("TO_BOOL"), Instr("RETURN_VALUE"), args="a")
    assert [f(v) for v in (0, 1, [], "x")] == [False, True, False, True]


def test_jump_behind_the_conversion_to_bool() -> None:
    """Resuming with a bool that is known already."""
    f = assemble(
        Instr("LOAD_CONST", True),
        Instr("JUMP", target=5),
        Instr("LOAD_FAST", "a"),
        Instr("TO_BOOL"),
        Instr("POP_JUMP_IF_TRUE", target=8),
        Instr("LOAD_CONST", "no"),
        Instr("RETURN_VALUE"),
        Instr("LOAD_CONST", "yes"),
        Instr("RETURN_VALUE"),
        args="a",
    )
    assert f(0) == "yes"


def test_conversion_on_its_own() -> None:
    f = assemble(Instr("LOAD_FAST", "a"), Instr("CONVERT_VALUE", "repr"), Instr("RETURN_VALUE"), args="a")
    assert f("x") == "'x'"


def test_loop_with_fall_through_into_its_end() -> None:
    """Where 3.12 and later need END_FOR, code that comes from above goes around it."""
    f = assemble(
        Instr("LOAD_FAST", "a"),
        Instr("TO_BOOL"),
        Instr("POP_JUMP_IF_FALSE", target=9),
        Instr("LOAD_FAST", "a"),
        Instr("GET_ITER"),
        Instr("FOR_ITER", target=9),
        Instr("POP_TOP"),
        Instr("POP_TOP"),
        Instr("LOAD_CONST", "end"),
        Instr("RETURN_VALUE"),
        args="a",
    )
    assert [f([]), f([1]), f([1, 2])] == ["end"] * 3


def test_exception_table() -> None:
    f = assemble(
        Instr("LOAD_CONST", 1),
        Instr("LOAD_FAST", "a"),
        Instr("BINARY_OP", "/"),
        Instr("RETURN_VALUE"),
        Instr("PUSH_EXC_INFO"),
        Instr("CONVERT_VALUE", "str"),
        Instr("SWAP", 2),
        Instr("POP_EXCEPT"),
        Instr("RETURN_VALUE"),
        handlers=(Handler(1, 5, 5, 0, False),),
        args="a",
    )
    assert (f(2), f(0)) == (0.5, "division by zero")


def test_resume_in_the_middle() -> None:
    """The same instructions behind another prologue: a loop goes on where it was left."""

    def total(xs, start):
        sum_ = start
        for x in xs:
            if x < 0:
                continue
            sum_ += x
        return sum_, xs

    bytecode = decode(total.__code__)
    entry = next(index for index, instr in enumerate(bytecode.instrs) if instr.op == "FOR_ITER")
    prologue = [Instr("RESUME", 0), Instr("LOAD_FAST", "iterator"), Instr("JUMP", target=entry + 3)]
    body = [
        Instr(i.op, i.arg, None if i.target is None else i.target + 3, i.offset, i.position) for i in bytecode.instrs
    ]
    code = encode(
        Bytecode(bytecode.code, (*prologue, *body), ()),
        co_argcount=3,
        co_varnames=("iterator", "sum_", "xs", "x", "start"),
        co_name="total_from_middle",
    )
    rest = iter([1, -2, 3])
    assert FunctionType(code, {})(rest, 10, "xs") == (14, "xs")
    assert code.co_name == "total_from_middle"


def test_free_variables_by_override() -> None:
    def outer():
        a, b = 1, 2

        def inner(c):
            return a + b + c

        return inner

    inner = outer()
    bytecode = decode(inner.__code__)
    body = [i for i in bytecode.instrs if i.op != "COPY_FREE_VARS"]
    code = encode(Bytecode(bytecode.code, (Instr("COPY_FREE_VARS", 0), *body), ()), co_freevars=("b", "extra", "a"))
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__, strict=True))
    made = FunctionType(code, {}, "made", None, (cells["b"], cells["a"], cells["a"]))
    assert made(10) == 13


def test_free_variable_with_the_name_of_a_cell() -> None:
    def scope():
        __class__ = "outer"

        class C:
            seen = __class__

            def method(self):
                return __class__

        return C

    body = next(c for c in scope.__code__.co_consts if isinstance(c, CodeType))
    named = [i.arg for i in decode(body).instrs if i.op in ("LOAD_FROM_DICT_OR_DEREF", "MAKE_CELL", "LOAD_CLOSURE")]
    assert "__class__" + FREE_MARK in named and "__class__" in named
    assert reencoded(scope)().seen == "outer"


def test_many_constants_and_long_jumps() -> None:
    """Arguments of one, two and three bytes, forward and backward."""
    lines = ["def f(n):", "    total = 0", "    while n:", "        n -= 1"]
    lines += [f"        if n < {i}: total += {' + '.join(['n'] * 40)}" for i in range(900)]
    lines += ["    return total"]
    namespace: dict[str, FunctionType] = {}
    exec("\n".join(lines), namespace)
    f, g = namespace["f"], reencoded(namespace["f"])
    assert {u.opname for u in dis.get_instructions(g)} >= {"EXTENDED_ARG"} and len(g.__code__.co_code) > 2 * 0xFFFF
    assert f(3) == g(3)


def test_line_and_column_of_errors() -> None:
    def fails(x):
        y = x + 1
        return y / (x - x)

    def where(function: Callable[..., object]) -> tuple[object, ...]:
        try:
            function(3)
        except ZeroDivisionError as e:
            entry = e.__traceback__.tb_next
            return entry.tb_lineno, list(entry.tb_frame.f_code.co_positions())[entry.tb_lasti // 2]
        raise AssertionError

    assert where(fails) == where(reencoded(fails))
    assert {line for *_, line in fails.__code__.co_lines()} == {
        line for *_, line in reencoded(fails).__code__.co_lines()
    }


def test_unknown_to_the_version() -> None:
    with pytest.raises(KeyError, match="NO_SUCH"):
        encode(Bytecode(lend.__code__, (Instr("NO_SUCH"),), ()))


def test_text() -> None:
    text = str(decode(reencoded(test_text).__code__))
    assert "LOAD_CONST" in text and "0 RESUME 0" in text


def test_decoded_once() -> None:
    assert decode(lend.__code__) is decode(lend.__code__)
