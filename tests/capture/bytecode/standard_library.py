"""Code objects of the running Python's standard library, compiled from its source."""

from __future__ import annotations

import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

LIBRARY = Path(sysconfig.get_path("stdlib"))


def sources() -> list[Path]:
    found = (p for p in LIBRARY.rglob("*.py") if not {"site-packages", "dist-packages"} & set(p.parts))
    return sorted(found)


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def codes(paths: list[Path]) -> Iterator[CodeType]:
    """The code objects of files; those that are invalid on purpose are left out."""
    for path in paths:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        yield from nested(module)
