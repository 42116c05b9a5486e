"""A driver for the tests of this folder, which must not complain of what they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu.driver import StandIn


@pytest.fixture(scope="session")
def any_driver() -> StandIn:
    return StandIn()


@pytest.fixture
def driver(any_driver: StandIn) -> Iterator[StandIn]:
    any_driver.set(devices=1, capability=80, shared=166912, any_memory=0, quiet=0)
    any_driver.forget()
    yield any_driver
    complaints = any_driver.complaints()
    any_driver.use(0)
    any_driver.forget()
    assert not complaints and any_driver.capture_mode() == 0
