"""Warnings that operators give while they run on fake tensors: nobody has called them yet.

A rule among the filters says what becomes of the warnings of this thread. Python's registries do not notice: what was
shown once at a place stays so, and what a trace has met is still new.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class OfThread:
    """In the place of a pattern for modules: it fits every warning of one thread."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def match(self, _: str) -> bool:
        return threading.get_ident() == self.thread


@contextmanager
def ruled(action: Any) -> Iterator[None]:
    """While active, this becomes of the warnings of this thread."""
    rule: Any = (action, None, Warning, OfThread(), 0)
    filters: Any = warnings.filters
    filters.insert(0, rule)
    try:
        yield
    finally:
        filters.remove(rule)


@contextmanager
def raised() -> Iterator[None]:
    """While active, warnings of this thread are errors. Those that torch gives once in a process are still to come."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with ruled("error"):
            yield
    finally:
        torch.set_warn_always(always)


def are_errors() -> bool:
    """Whether the program has made any warnings errors."""
    return any(rule[0] == "error" for rule in warnings.filters)
