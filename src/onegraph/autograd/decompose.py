"""Which operators are replaced by simpler ones while the graph is recorded.

Each entry is one function with the operator's signature, run under the recorder in its place; it may return
NotImplemented to keep the operator. Operators that a library does better than loops (matrix products, convolutions,
attention, embeddings, sorting) stay whole. Numerics are eager's: reductions and normalizations of half-precision tensors
compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {}
