"""Layouts of the results of operators that are not element-wise: each file has rules for operators of one kind.

A rule takes the arguments of the operator and gives the sizes, strides and type of its result (or of each of its
results), or None for what it does not know: the meta kernel is asked then, which also raises the errors. Sizes are
plain numbers, except for the operators in `OF_SYMBOLS`, and for those in `GENERAL`, whose sizes may be 0 and 1; all
tensors are on the CPU.
"""

from __future__ import annotations

from onegraph.torchlib.layouts import attention, images, indexing, losses, norms, products, reductions, shapes
from onegraph.torchlib.layouts.registry import GENERAL, OF_SYMBOLS, RULES, Layout

__all__ = [
    "GENERAL", "OF_SYMBOLS", "RULES", "Layout", "attention", "images", "indexing", "losses", "norms", "products",
    "reductions", "shapes",
]  # fmt: skip
