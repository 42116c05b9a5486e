"""The whole table: the programs of all themes."""

from __future__ import annotations

from tests.breaks import (  # noqa: F401
    decisions,
    gradients,
    hatches,
    memory,
    objects,
    operators,
    outside,
    python,
    state,
)
from tests.breaks.table import CASES as CASES
