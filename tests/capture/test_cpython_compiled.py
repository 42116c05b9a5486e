"""CPython's own tests pass when each test function is compiled."""

from __future__ import annotations

import pytest
from capture.cpython_suite import available, start

import onegraph

CPYTHON_TESTS = ("test_dictcomps", "test_genexps")
LONG_CPYTHON_TESTS = (
    "test_generators", "test_contextlib", "test_exceptions", "test_listcomps", "test_setcomps", "test_dict",
    "test_list", "test_set", "test_iter", "test_enumerate", "test_functools", "test_itertools", "test_dataclasses",
)  # fmt: skip

#: The tests that do not pass, and why: as documented in docs/programming_model/core_concepts.md.
REFERENCES = "it counts the references to an object: those of the running code are others"
SIZES = "it compares sizes of a dict: one that crosses a break is new"
KNOWN_BY_IDENTITY = "compiled code keeps the functions and classes that it knows by identity"
FINALIZER = "a variable that is not read any more lets go of its value at a break"
DIFFERENT = {
    "TestReversed.test_bug1229429": REFERENCES,
    "DictTest.test_splittable_popitem": SIZES,
    "TestLRUC.test_lru_cache_weakrefable": KNOWN_BY_IDENTITY,
    "TestLRUPy.test_lru_cache_weakrefable": KNOWN_BY_IDENTITY,
    "DictTest.test_oob_indexing_dictiter_iternextitem": FINALIZER,
}


@pytest.mark.parametrize("name", available(CPYTHON_TESTS))
def test_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


@pytest.mark.slow
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("name", available(LONG_CPYTHON_TESTS))
def test_more_of_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


def same_outcome(name: str) -> None:
    assert "eager" in onegraph.list_backends()
    count, differing = start("compiled", name, timeout=1900)
    assert count > 0
    assert {test: why for test, why in differing.items() if ".".join(test.split(".")[-2:]) not in DIFFERENT} == {}
