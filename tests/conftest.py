"""Shared by all tests. Imports no torch, so that what needs none is tested on Pythons that have none."""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import words_of_breaks
from hypothesis import settings
from import_graph import foreign_packages

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.events import Event, Events

os.environ.setdefault("ONEGRAPH_RAISE_COMPILER_ERRORS", "1")  # a defect of the compiler is to be seen
os.environ["ONEGRAPH_VERIFY"] = "1"  # every program and every plan is checked
os.environ["ONEGRAPH_SMALLEST_RECORDED_GRAPH"] = "0"  # programs of tests are small, and are to be compiled
os.environ.setdefault("ONEGRAPH_SHARE_VERSIONS", "0")  # each test compiles what it counts, whatever ran before it
HAS_TORCH = importlib.util.find_spec("torch") is not None


class Defects(logging.Handler):
    """Every message of onegraph that says that it has a defect."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "defect" in (message := record.getMessage()):
            self.messages.append(message)


DEFECTS = Defects()  # there from the start: what is said between two tests is found by the next one
logging.getLogger("onegraph").addHandler(DEFECTS)

settings.register_profile("onegraph", deadline=None, derandomize=True, max_examples=50, print_blob=True)
settings.load_profile("onegraph")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing with them")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """On a Python without torch, files that need it (or what comes with it) are not collected."""
    if not HAS_TORCH and collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return any(importlib.util.find_spec(name) is None for name in foreign_packages(collection_path)) or None
    return None


#: Many programs of one kind: a run of everything takes every third of each, other ones for another PYTHONHASHSEED.
SAMPLED = frozenset(
    {
        "capture/guards/test_absence.py",
        "capture/policy/test_random_numbers.py",
        "capture/symbolic/test_changing_calculations.py",
        "capture/symbolic/test_changing_expressions.py",
        "capture/symbolic/test_changing_floats.py",
        "capture/test_adversarial.py",
        "compiler/lower/test_special_values.py",
        "compiler/test_scalar_ops.py",
        "conformance/test_matrix.py",
        "opinfo/test_operators.py",
        "torchlib/test_arrays.py",
    }
)
EVERY = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Who names a file, or asks for what is slow, gets all of it."""
    everything = Path(__file__).parent
    if [Path(config.rootpath, arg) for arg in config.args] != [everything]:
        return
    seed = os.environ.get("PYTHONHASHSEED", "")
    turn = int(seed) % EVERY if seed.isdecimal() else 0
    sampled = [i for i in items if str(i.path.relative_to(everything)) in SAMPLED and hasattr(i, "callspec")]
    for number, item in enumerate(sampled):
        if number % EVERY != turn:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """What is there before a file's tests stays: the garbage collector, which many ask to run, passes over it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)  # the others note the whole stack


@pytest.fixture(autouse=True)
def defects() -> Iterator[list[str]]:
    """What onegraph has said of defects of its own. A test that makes one takes it out; any other message is a bug."""
    yield DEFECTS.messages
    said, DEFECTS.messages[:] = DEFECTS.messages[:], []
    assert not said, "onegraph has a defect; ONEGRAPH_RAISE_COMPILER_ERRORS=1 shows where it is from"


words_of_breaks.watch()


@pytest.fixture(autouse=True)
def _breaks_name_no_insides() -> Iterator[None]:
    """A message is for who has written the program. A test of one that names insides takes it out."""
    yield
    found, words_of_breaks.FOUND[:] = words_of_breaks.FOUND[:], []
    assert not found, "graph breaks name classes or modules of the package"


@pytest.fixture(autouse=True)
def _state_is_left_as_it_was() -> Iterator[None]:
    """What a test leaves switched on would fail others, far from its cause."""
    if "torch" not in sys.modules:
        yield
        return
    before = process_state(sys.modules["torch"])
    yield
    assert process_state(sys.modules["torch"]) == before


def process_state(torch: Any) -> dict[str, Any]:
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "transforms": torch._C._functorch.maybe_current_level(),
        "below autograd": torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "classes": torch._C._is_torch_function_enabled(),
        "threads": torch.get_num_threads(),
    }


@pytest.fixture
def cx() -> Context:
    """A context that checks every program after every pass and that nobody else listens to."""
    return Context(config=Config(verify=True, check_unchanged=True, cache=False), events=Events())


@pytest.fixture
def emitted(cx: Context) -> Iterator[list[Event]]:
    """The events emitted through `cx` during the test."""
    events: list[Event] = []
    unsubscribe = cx.events.subscribe(events.append)
    yield events
    unsubscribe()


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """`golden(path, text)` compares a text with a golden file, or rewrites the file under `--update-golden`."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"{path} is missing: make it with `pytest --update-golden`"
        assert text == path.read_text(), f"{path} differs: look at the difference, then run `pytest --update-golden`"

    return compare
