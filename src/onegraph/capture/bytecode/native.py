"""The running version's tables."""

from __future__ import annotations

import sys
from types import ModuleType

from onegraph.capture.bytecode import py311, py312, py313, py314

_TABLES = {(3, 11): py311, (3, 12): py312, (3, 13): py313, (3, 14): py314}

native: ModuleType = _TABLES[sys.version_info[:2]]

NULL_FIRST: bool = native.NULL_FIRST  # in a callable pair without self, NULL is the lower slot
LIVE_LOCALS: bool = native.LIVE_LOCALS  # what is written to f_locals of a frame is written to its variables
