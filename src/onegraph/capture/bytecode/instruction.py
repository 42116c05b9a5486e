"""The normal form of bytecode: one instruction set for CPython 3.11, 3.12 and 3.13.

Names and meanings are CPython 3.13's; `decode` and `encode` translate from and to the running version. Arguments are
resolved (a name instead of an index, the constant itself, an operator's symbol) and jumps hold the index of their
target instruction. Caches, EXTENDED_ARG, PRECALL and END_FOR do not exist. Superinstructions are split.

Names are those of the source; a free variable that shares its name with a cell of the same code (only `__class__` in a
class body can) carries FREE_MARK behind its name.

The stack is written bottom to top. `NULL` is an empty stack slot.

    stack
    POP_TOP                              (a --)
    COPY n                               (x .. -- x .. x)      x is n-th from the top
    SWAP n                               exchanges the top with the n-th from the top
    PUSH_NULL                            (-- NULL)
    NOP, RESUME n                        ( -- )                n & 3: at the start, after yield, yield from, await

    names
    LOAD_CONST object                    (-- object)
    LOAD_FAST, LOAD_FAST_CHECK name      (-- value)            unbound: UnboundLocalError
    LOAD_FAST_AND_CLEAR name             (-- slot)             the raw slot (cell, value or NULL), then unbinds it
    STORE_FAST name                      (value --)
    STORE_FAST_MAYBE_NULL name           (slot --)             for names that LOAD_FAST_AND_CLEAR saves in this code
    DELETE_FAST name                     ( -- )
    LOAD_CLOSURE name                    (-- slot)             the raw slot of a cell or free variable: its cell, or
                                                               its value where an inlined comprehension uses the name
                                                               as a plain local
    MAKE_CELL name                       ( -- )                puts the slot's value into a new cell in the same slot
    COPY_FREE_VARS n                     ( -- )                fetches the closure (the encoder computes n)
    LOAD_DEREF, STORE_DEREF, DELETE_DEREF name                 the contents of a cell
    LOAD_GLOBAL, STORE_GLOBAL, DELETE_GLOBAL name
    LOAD_NAME, STORE_NAME, DELETE_NAME name
    LOAD_LOCALS                          (-- mapping)
    LOAD_FROM_DICT_OR_DEREF name         (mapping -- value)
    LOAD_FROM_DICT_OR_GLOBALS name       (mapping -- value)
    SETUP_ANNOTATIONS, LOAD_BUILD_CLASS, LOAD_ASSERTION_ERROR
    IMPORT_NAME name                     (level names -- module)
    IMPORT_FROM name                     (module -- module value)

    attributes, items, operators
    LOAD_ATTR name                       (object -- value)
    LOAD_METHOD name                     (object -- callable pair)
    LOAD_SUPER_ATTR (name, explicit)     (super class self -- value)          explicit: written with two arguments
    LOAD_SUPER_METHOD (name, explicit)   (super class self -- callable pair)
    STORE_ATTR name                      (value object --)
    DELETE_ATTR name                     (object --)
    BINARY_SUBSCR                        (object key -- value)
    STORE_SUBSCR                         (value object key --)
    DELETE_SUBSCR                        (object key --)
    BINARY_OP symbol                     (a b -- c)            '+', '+=', ...
    UNARY_NEGATIVE, UNARY_INVERT         (a -- b)
    UNARY_NOT                            (bool -- bool)        always after a conversion to bool
    TO_BOOL                              (a -- bool)
    COMPARE_OP symbol                    (a b -- c)            '<', '<=', '==', '!=', '>', '>='
    IS_OP negate, CONTAINS_OP negate     (a b -- bool)
    CONVERT_VALUE kind                   (a -- text)           'str', 'repr', 'ascii'
    FORMAT_SIMPLE                        (a -- text)
    FORMAT_WITH_SPEC                     (a spec -- text)
    CALL_INTRINSIC_1 name                (a -- b)              names without the prefix INTRINSIC_
    CALL_INTRINSIC_2 name                (a b -- c)

    calls and functions. A callable pair is two slots: if one is NULL the other is the callable, else (method, self).
    Which of the two is NULL is the running version's choice: NULL_FIRST.
    CALL n                               (pair a1 .. an -- result)
    CALL_KW (n, names)                   (pair a1 .. an -- result)            the last len(names) arguments are named
    CALL_FUNCTION_EX keywords            (pair args [kwargs] -- result)
    MAKE_FUNCTION                        (code -- function)
    SET_FUNCTION_ATTRIBUTE kind          (value function -- function)         'closure', 'annotations', 'kwdefaults' or
                                                                              'defaults', in this order
    RETURN_VALUE                         (value --)

    containers
    BUILD_TUPLE, BUILD_LIST, BUILD_SET, BUILD_STRING n         (a1 .. an -- container)
    BUILD_MAP n                          (k1 v1 .. kn vn -- dict)
    BUILD_CONST_KEY_MAP n                (v1 .. vn keys -- dict)
    BUILD_SLICE 2 or 3                   (start stop [step] -- slice)
    LIST_APPEND, LIST_EXTEND, SET_ADD, SET_UPDATE, DICT_UPDATE, DICT_MERGE n  (container .. a -- container ..)
    MAP_ADD n                            (dict .. key value -- dict ..)       n counts from the top after popping
    UNPACK_SEQUENCE n                    (sequence -- an .. a1)
    UNPACK_EX (before, after)            (iterable -- ..)                     first item on top
    GET_LEN                              (a -- a length)
    MATCH_MAPPING, MATCH_SEQUENCE        (a -- a bool)
    MATCH_KEYS                           (a keys -- a keys values-or-None)
    MATCH_CLASS n                        (a class names -- attributes-or-None)

    control
    JUMP, JUMP_NO_INTERRUPT              ( -- )
    POP_JUMP_IF_TRUE, POP_JUMP_IF_FALSE  (bool --)             always after a conversion to bool
    POP_JUMP_IF_NONE, POP_JUMP_IF_NOT_NONE  (a --)
    GET_ITER                             (a -- iterator)
    FOR_ITER                             (iterator -- iterator value), or when exhausted (iterator --) and jump

    exceptions
    RAISE_VARARGS 0, 1 or 2              ([exception [cause]] --)
    PUSH_EXC_INFO                        (exception -- previous exception)
    POP_EXCEPT                           (previous --)
    CHECK_EXC_MATCH                      (exception type -- exception bool)
    CHECK_EG_MATCH                       (group type -- rest-or-None match-or-None)
    RERAISE n                            (exception --)        n > 0: the n-th below it is the instruction to blame
    BEFORE_WITH                          (manager -- exit entered)
    WITH_EXCEPT_START                    (exit lasti previous exception -- exit lasti previous exception result)

    generators and coroutines
    RETURN_GENERATOR                     (-- None)             returns the generator, which goes on when it is resumed
    YIELD_VALUE n                        (value -- sent)       n is the compiler's own hint, kept for the encoder
    GET_YIELD_FROM_ITER                  (a -- iterator)
    SEND                                 (receiver value -- receiver yielded), or when it returns
                                         (receiver value -- receiver result) and jump
    END_SEND                             (receiver value -- value)
    CLEANUP_THROW                        (receiver value exception -- None result)
    GET_AWAITABLE n, GET_AITER, GET_ANEXT, END_ASYNC_FOR, BEFORE_ASYNC_WITH    as in CPython
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, TypeVar

Position = tuple[int, int | None, int | None, int | None]  # line, end line, column, end column


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction in normal form. `offset` is the byte offset of the native instruction that it came from."""

    op: str
    arg: object = None
    target: int | None = None
    offset: int = -1
    position: Position | None = None

    def __str__(self) -> str:
        text = self.op
        if self.arg is not None:
            text += f" {self.arg!r}"
        return text if self.target is None else f"{text} -> {self.target}"


@dataclass(frozen=True, slots=True)
class Handler:
    """Instructions `start` to `end` (exclusive) are protected.

    An exception cuts the stack to `depth` and goes to `target`.
    With `lasti` the index of the raising instruction is pushed below the exception.
    """

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclass(frozen=True, slots=True, eq=False)
class Bytecode:
    """A code object in normal form. Handlers do not overlap and are sorted."""

    code: CodeType
    instrs: tuple[Instr, ...]
    handlers: tuple[Handler, ...]

    def handler_at(self, index: int) -> Handler | None:
        """The handler that protects the instruction at `index`."""
        for handler in self.handlers:
            if handler.start <= index < handler.end:
                return handler
        return None

    def __str__(self) -> str:
        lines = [f"{index:4} {instr}" for index, instr in enumerate(self.instrs)]
        lines += [f"{h.start} to {h.end} -> {h.target} [{h.depth}]{' lasti' if h.lasti else ''}" for h in self.handlers]
        return "\n".join(lines)


F = TypeVar("F", bound=Callable[..., Any])
_derived: list[Callable[[], None]] = []


def derived(function: F) -> F:
    """Remember what a function says of the last code objects it was asked about, until `forget_derived`."""
    remembered = lru_cache(maxsize=256)(function)
    _derived.append(remembered.cache_clear)
    return remembered  # type: ignore[return-value]


def forget_derived() -> None:
    for clear in _derived:
        clear()
