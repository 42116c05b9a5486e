"""Printing of indented text: the one way in which every program, plan and report of onegraph becomes readable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager


class Printer:
    """Collects lines at the current indentation.

    >>> out = Printer()
    >>> out.line("for i in 0..8:")
    >>> with out.indented():
    ...     out.line("b[i] = a[i] + 1")
    >>> print(out.text())
    for i in 0..8:
      b[i] = a[i] + 1
    """

    def __init__(self, step: str = "  ") -> None:
        self._step = step
        self._depth = 0
        self._lines: list[str] = []

    def line(self, text: str = "") -> None:
        """Append text; each of its lines gets the current indentation, and an empty line stays empty."""
        for piece in text.split("\n"):
            self._lines.append(self._step * self._depth + piece if piece else "")

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def text(self) -> str:
        return "\n".join(self._lines)


def columns(rows: Sequence[Sequence[object]], gap: str = "  ") -> str:
    """Align rows of cells to the left; the last cell of a row is not padded.

    >>> print(columns([("a", 1), ("long", 22)]))
    a     1
    long  22
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths: dict[int, int] = {}
    for row in cells:
        for i, cell in enumerate(row[:-1]):
            widths[i] = max(widths.get(i, 0), len(cell))
    return "\n".join(
        gap.join([*(cell.ljust(widths[i]) for i, cell in enumerate(row[:-1])), *row[-1:]]) for row in cells
    )


def plural(count: int, noun: str) -> str:
    """`1 graph`, `2 graphs`, `0 graphs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
