"""Every setting of torch's compiler has a row, and takes torch's own default."""

from __future__ import annotations

from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

import pytest
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
import torch.compiler.config

from onegraph.base import settings
from onegraph.base.config import Config
from onegraph.base.setting_names import NAMES
from onegraph.base.torch_settings import EXACT, PATTERNS, Same, row_of

MODULES = (torch._dynamo.config, torch._inductor.config, torch._functorch.config, torch.compiler.config)
of_each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)


def defaults(module: ModuleType) -> dict[str, Any]:
    """The names of a module of torch, but for old spellings, with their values."""
    return {name: entry.default for name, entry in module._config.items() if type(entry.default) is not object}


@of_each_module
def test_each_name_has_a_row(module: ModuleType) -> None:
    assert [name for name in module._config if row_of(name) is None] == []


@of_each_module
def test_each_name_takes_its_default(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_told", set())
    for name, value in defaults(module).items():
        settings.resolved({name: value})


def test_patterns_are_of_names_that_exist() -> None:
    assert row_of("fx_graph_caches") is None
    assert set(EXACT) - NAMES == set()
    patterns = [pattern for pattern, _ in PATTERNS]
    used = {next(pattern for pattern in patterns if fnmatchcase(name, pattern)) for name in NAMES - set(EXACT)}
    assert set(patterns) == used


def test_rows_name_settings_of_ours() -> None:
    rows = [*EXACT.values(), *(row for _, row in PATTERNS)]
    assert all(hasattr(Config(), row.field) for row in rows if isinstance(row, Same))
