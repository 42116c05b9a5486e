"""Proofs that a number is not negative: goals that have a factor in common with a fact."""

from __future__ import annotations

from onegraph.ir.index import Index, Symbol
from onegraph.ir.proof import is_proven

ROWS, COLUMNS = (Index.of(Symbol(name)) for name in ("s0", "s1"))


def test_a_fact_with_a_common_factor_proves_its_multiples() -> None:
    """rows * columns <= 4 * rows, as of a tensor whose shape was changed; rows may be 0, so columns may be 5."""
    fact = ROWS * 4 - ROWS * COLUMNS
    for goal in (fact, fact * 4, fact + ROWS):
        assert is_proven(goal, [((fact,),)])
    assert not is_proven(fact - 1, [((fact,),)])
    assert not is_proven(Index.of(4) - COLUMNS, [((fact,),)])
