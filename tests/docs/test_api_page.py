"""The page of the API has each public name once."""

from __future__ import annotations

import re
from importlib import import_module

import torch  # noqa: F401 - the names of the package are loaded with it
from import_graph import ROOT

import onegraph


def test_each_public_name_has_its_entry() -> None:
    entries = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    shown = [getattr(import_module(module), name) for module, _, name in (entry.rpartition(".") for entry in entries)]
    missing = [
        name
        for name in onegraph.__all__
        if (value := getattr(onegraph, name)) not in shown and type(value) not in shown
    ]
    assert missing == []
    assert len(entries) == len(set(entries)) == len(onegraph.__all__)
