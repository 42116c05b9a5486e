"""CPython's own tests pass when each test function is compiled."""

from __future__ import annotations

import pytest
from capture.cpython_suite import available, start

import onegraph

CPYTHON_TESTS = ("test_dictcomps", "test_genexps")
LONG_CPYTHON_TESTS = (
    "test_generators", "test_contextlib", "test_exceptions", "test_listcomps", "test_setcomps", "test_dict",
    "test_list", "test_set", "test_iter", "test_enumerate", "test_functools", "test_itertools", "test_dataclasses",
    "test_class", "test_funcattrs", "test_keywordonlyarg", "test_positional_only_arg", "test_named_expressions",
    "test_deque", "test_heapq", "test_bisect", "test_slice", "test_tuple", "test_range", "test_sort", "test_enum",
    "test_collections", "test_patma", "test_fstring", "test_format", "test_complex", "test_float",
)  # fmt: skip


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
    assert differing == {}
