"""CPython's own tests pass when each test function is compiled."""

from __future__ import annotations

import pytest
from capture.cpython_suite import available, start

import onegraph

CPYTHON_TESTS = ("test_dictcomps", "test_genexps")
LONG_CPYTHON_TESTS = ("test_generators", "test_contextlib", "test_listcomps", "test_setcomps")


@pytest.mark.parametrize("name", available(CPYTHON_TESTS))
def test_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", available(LONG_CPYTHON_TESTS))
def test_more_of_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


def same_outcome(name: str) -> None:
    assert "eager" in onegraph.list_backends()
    count, differing = start("compiled", name, timeout=1000)
    assert count > 0
    assert not differing
