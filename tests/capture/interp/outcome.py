"""What a program does, as data that can be compared: result, output, exception with its chain."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    result: str
    output: str
    error: object


def shown(value: object) -> str:
    """The text of a value and its types, without addresses."""
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{type(value).__name__}{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in value.items())}}}"
    return f"{type(value).__name__}:{re.sub(r'0x[0-9a-f]+', '0x', repr(value))}"


def chain(error: BaseException | None) -> object:
    if error is None:
        return None
    text = re.sub(r"0x[0-9a-f]+", "0x", str(error))
    own = {k: shown(v) for k, v in vars(error).items() if k != "__notes__"}
    lines = []
    entry = error.__traceback__
    while entry is not None:
        module = entry.tb_frame.f_globals.get("__name__", "")
        if not module.startswith("onegraph.") and not module.rpartition(".")[2].startswith(("outcome", "test_")):
            lines.append((entry.tb_frame.f_code.co_qualname, entry.tb_lineno))
        entry = entry.tb_next
    return type(error).__qualname__, text, own, chain(error.__cause__), chain(error.__context__), lines


def observe(run: Callable[[], object]) -> Outcome:
    """Run and note everything that can be seen from outside."""
    output = io.StringIO()
    result: object = "(none)"
    error = None
    with contextlib.redirect_stdout(output):
        try:
            result = run()
        except BaseException as e:  # exits and the like are outcomes too
            error = e
    return Outcome(shown(result), re.sub(r"0x[0-9a-f]+", "0x", output.getvalue()), chain(error))
