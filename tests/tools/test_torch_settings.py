"""Every setting of torch's compiler has a row, and takes torch's own default."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from onegraph.base import settings
from onegraph.base.config import Config
from onegraph.base.torch_settings import EXACT, PATTERNS, Same, row_of

MODULES = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config", "torch.compiler.config")


def defaults(module: str) -> dict[str, Any]:
    """The names of a module of torch, but for old spellings, with their values."""
    entries = importlib.import_module(module)._config
    return {name: entry.default for name, entry in entries.items() if type(entry.default) is not object}


@pytest.mark.parametrize("module", MODULES)
def test_each_name_has_a_row(module: str) -> None:
    entries = importlib.import_module(module)._config
    assert [name for name in entries if row_of(name) is None] == []


@pytest.mark.parametrize("module", MODULES)
def test_each_name_takes_its_default(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_told", set())
    for name, value in defaults(module).items():
        settings.resolved({name: value})


def test_rows_name_settings_of_ours() -> None:
    rows = [*EXACT.values(), *(row for _, row in PATTERNS)]
    assert all(hasattr(Config(), row.field) for row in rows if isinstance(row, Same))
