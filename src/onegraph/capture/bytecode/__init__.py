"""Bytecode: one normal form for all supported versions of CPython. `instruction` describes it."""

from onegraph.capture.bytecode.decode import decode
from onegraph.capture.bytecode.encode import encode
from onegraph.capture.bytecode.instruction import Bytecode, Handler, Instr
from onegraph.capture.bytecode.native import NULL_FIRST

__all__ = ["NULL_FIRST", "Bytecode", "Handler", "Instr", "decode", "encode"]
