"""The whole table: the programs of all themes."""

from __future__ import annotations

from tests.capture.breaks import (  # noqa: F401
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
from tests.capture.breaks.table import CASES as CASES
