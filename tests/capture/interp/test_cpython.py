"""CPython's own tests pass when they and unittest around them are interpreted."""

from __future__ import annotations

import pytest
from capture.cpython_suite import available, start

CPYTHON_TESTS = (
    "test_scope", "test_with", "test_class", "test_property", "test_super", "test_except_star", "test_listcomps",
    "test_unpack_ex", "test_keywordonlyarg", "test_named_expressions", "test_augassign", "test_binop", "test_contains",
    "test_decorators", "test_dynamicclassattribute", "test_genexps", "test_global", "test_metaclass", "test_opcodes",
    "test_subclassinit", "test_userlist", "test_bool", "test_compare",
)  # fmt: skip
LONG_CPYTHON_TESTS = (
    "test_generators", "test_exceptions", "test_grammar", "test_descr", "test_patma", "test_contextlib", "test_raise",
    "test_dataclasses", "test_enum", "test_functools", "test_fstring", "test_call", "test_operator", "test_types",
    "test_yield_from", "test_string", "test_userdict", "test_richcmp", "test_funcattrs", "test_isinstance", "test_iter",
)  # fmt: skip

# What an interpreter of bytecode cannot imitate.
MAY_DIFFER = (
    # real frame objects: f_back, f_lineno, gi_yieldfrom, settrace, locals of a traceback's frame, frames in generators
    "frame", "TestTracing", "PEP626", "yieldfrom", "suggestion", "Traceback", "SettingException", "debugger",
    "throw_with_yield_from", "memory_error_cleanup",
    # asynchronous code
    "async", "coro", "Coroutine", "test_genfunc", "test_duck_functional",
    # how deep the native stack is, and who keeps objects alive
    "ecursi", "repr_deep", "super_deep", "weakrefable", "test_slots", "mro_reference", "free_after_iterating",
    # vectorcall set from C, errors in close() that are reported and ignored, the line that a warning names
    "setvectorcall", "broken_getattr_handling", "test_partial_as_method", "fastcall_clearing_dict",
)  # fmt: skip


@pytest.mark.parametrize("name", available(CPYTHON_TESTS))
def test_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", available(LONG_CPYTHON_TESTS))
def test_more_of_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


def same_outcome(name: str) -> None:
    count, differing = start("interpreted", name)
    assert count > 0
    assert not {test: why for test, why in differing.items() if not any(part in test for part in MAY_DIFFER)}
