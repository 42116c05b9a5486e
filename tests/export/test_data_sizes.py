"""Exported programs with sizes that only the data say."""

from __future__ import annotations

from pathlib import Path

import torch

import onegraph


def test_saved_and_loaded(tmp_path: Path) -> None:
    def chosen(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = x[x > 0.5]
        return kept * 2, torch.cat([kept, x[: kept.shape[0]]])

    x = torch.rand(9)
    exported = onegraph.export(chosen)(x)
    exported.save(tmp_path / "chosen.og")
    loaded = type(exported).load(tmp_path / "chosen.og")
    for values in (x, torch.linspace(0.1, 0.9, 9), torch.ones(9)):
        torch.testing.assert_close(loaded(values), chosen(values))
