"""Decoding and encoding lose nothing: the whole standard library comes back."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import pytest
from capture.bytecode.standard_library import codes, sources

from onegraph.capture.bytecode import Bytecode, encode
from onegraph.capture.bytecode.decode import decode_once
from onegraph.capture.bytecode.flow import falls_through, stack_depths, stack_effect

SAME_FIELDS = (
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_varnames", "co_cellvars", "co_freevars",
    "co_name", "co_qualname", "co_filename", "co_firstlineno", "co_names",
)  # fmt: skip


def comparable(bytecode: Bytecode) -> list[tuple[object, ...]]:
    """Constants by identity: 1, 1.0 and True are equal, and so are code objects of one text."""
    return [(i.op, id(i.arg) if i.op == "LOAD_CONST" else i.arg, i.target, i.position) for i in bytecode.instrs]


def check(code: CodeType) -> None:
    first = decode_once(code)
    written = encode(first)
    second = decode_once(written)
    where = f"{code.co_qualname} of {code.co_filename}"
    assert comparable(second) == comparable(first), where
    assert second.handlers == first.handlers, where
    assert all(getattr(written, field) == getattr(code, field) for field in SAME_FIELDS), where
    assert all(a is b for a, b in zip(written.co_consts, code.co_consts, strict=False)), where
    assert written.co_stacksize <= code.co_stacksize + 2, where
    check_depths(first, where)


def check_depths(bytecode: Bytecode, where: str) -> None:
    """Each way to an instruction comes with the same depth, and handlers cut, never fill."""
    depths = stack_depths(bytecode)
    for index, instr in enumerate(bytecode.instrs):
        depth = depths[index]
        if depth is None:
            continue
        if falls_through(instr):
            assert depths[index + 1] == depth + stack_effect(instr), f"{index} {instr} in {where}"
        if instr.target is not None:
            assert depths[instr.target] == depth + stack_effect(instr, jump=True), f"{index} {instr} in {where}"
        handler = bytecode.handler_at(index)
        assert handler is None or handler.depth <= depth, f"{index} {instr} in {where}"


def slice_of(paths: list[Path]) -> list[Path]:
    """One file in 48, and some that are rich in syntax."""
    rich = ("test_grammar.py", "test_patma.py", "test_coroutines.py", "test_except_star.py", "test_listcomps.py",
            "dataclasses.py", "contextlib.py", "typing.py", "_collections_abc.py", "inspect.py", "argparse.py",
            "test_extended_arg.py", "test_type_params.py", "test_fstring.py")  # fmt: skip
    return sorted({*paths[::48], *(p for p in paths if p.name in rich)})


def test_a_slice_of_the_standard_library() -> None:
    count = 0
    for code in codes(slice_of(sources())):
        check(code)
        count += 1
    assert count > 1000


@pytest.mark.slow
def test_the_whole_standard_library() -> None:
    for code in codes(sources()):
        check(code)
