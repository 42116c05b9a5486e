"""How much of torch's core aten set runs as loops; `python -m tests.opinfo` prints what does not, and why."""

from __future__ import annotations

import torch

from onegraph.compiler.lower.left import UNKNOWN
from tests.opinfo.coverage import LOWERED, core_operators, count_uses, report, way
from tests.opinfo.harness import operators


def test_core_operators_are_lowered() -> None:
    ways = {op: way(op) for op in core_operators()}
    left = {str(op): how for op, how in ways.items() if how not in LOWERED}
    assert 1 - len(left) / len(ways) >= 0.92, left
    assert [op for op, how in left.items() if how == UNKNOWN] == ["aten.resize_.default"]


def test_the_report_names_what_is_left_and_why() -> None:
    chosen = [op for op in operators() if op.formatted_name in ("mm", "sin", "linalg_qr", "histc")]
    uses = count_uses(chosen, 2, lambda name: None)
    assert uses[str(torch.ops.aten.sin.default)].lowered > 0
    text = report(uses)
    assert "a library multiplies matrices best:" in text
    assert "aten.mm.default  0 uses lowered, 2 left: a library multiplies matrices best" in text
    assert "aten.linalg_qr.default  0 uses lowered, 2 left: a library does linear algebra best" in text
    assert "aten.histc.default  0 uses lowered, 2 left: there is no lowering for it" in text
