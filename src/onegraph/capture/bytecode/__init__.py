"""Bytecode: one normal form for all supported versions of CPython. `instruction` describes it."""

from onegraph.capture.bytecode.decode import (
    decode,
    decode_once,
    forget,
    forget_dead_code,
    free_names,
    remember,
)
from onegraph.capture.bytecode.encode import encode
from onegraph.capture.bytecode.instruction import FREE_MARK, Bytecode, Handler, Instr
from onegraph.capture.bytecode.native import LIVE_LOCALS, NULL_FIRST

__all__ = [
    "FREE_MARK",
    "LIVE_LOCALS",
    "NULL_FIRST",
    "Bytecode",
    "Handler",
    "Instr",
    "decode",
    "decode_once",
    "encode",
    "forget",
    "forget_dead_code",
    "free_names",
    "remember",
]
