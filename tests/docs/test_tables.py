"""The pages of settings, and of torch's names and settings, are made from the tables of the package.

A name of any supported torch has its row: `--update-golden` keeps those of the page, and adds those of the installed
torch.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from typing import Any

import torch
import torch._dynamo
from import_graph import ROOT

import onegraph
from onegraph.base.torch_names import ELSEWHERE
from onegraph.base.torch_settings import ROWS, Nothing, Refused, Row, Same

NAMES = ROOT / "docs" / "torch_names.md"
SETTINGS = ROOT / "docs" / "torch_settings.md"
OWN = ROOT / "docs" / "settings_table.md"

HEAD_OF_OWN = """# All settings

The fields of `onegraph.Config`: as `options=` of one function, in `onegraph.config` for the process, and by the
variable `ONEGRAPH_` with the name in capitals. `onegraph config` prints them with their present values.
[Settings](programming_model/settings.md) says which counts."""

HEAD_OF_NAMES = """# Names of torch.compile

The public names of `torch.compiler` and `torch._dynamo`, and what `onegraph.NAME` is. The table is made from the
package itself; a test holds a row for each name of every torch that is supported.
[Coming from torch.compile](coming_from_torch.md) shows them in use, [the API](api.md) has their arguments.

## The same name here"""

HEAD_OF_ELSEWHERE = """## Not here

`onegraph.NAME` raises an `AttributeError` that says what to use."""

HEAD_OF_SETTINGS = """# Settings of torch.compile

The settings of `torch._dynamo.config`, `torch._inductor.config`, `torch._functorch.config` and
`torch.compiler.config`, as `onegraph.config`, `options=` and `onegraph.config.patch` take them. `*` stands for any
text. `onegraph config NAME` prints the row of one name. [Settings](programming_model/settings.md) says how they are
given."""


def spelled(row: Same) -> str:
    negated = isinstance(getattr(onegraph.Config(), row.field), bool) and row.ours(True) is False
    return f"the opposite of `{row.field}`" if negated else f"`{row.field}`"


KINDS: tuple[tuple[type[Row], str, Callable[[Any], str]], ...] = (
    (Same, "## Other spellings of settings here", spelled),
    (
        Refused,
        "## Refused\n\nWhat they ask for is needed, and not done here. Switched off, they are accepted.",
        lambda row: row.instead,
    ),
    (
        Nothing,
        "## No meaning here\n\nAccepted. The first time, one line of the log says why they do nothing.",
        lambda row: row.why,
    ),
)


def first_paragraph(name: str) -> str:
    """What an object of the package says of itself."""
    text = inspect.getdoc(getattr(onegraph, name)) or ""
    return " ".join(text.partition("\n\n")[0].split())


def table(rows: list[tuple[str, str]], of: str) -> str:
    cells = [(f"`{name}`", text.replace("|", "\\|")) for name, text in rows]
    return "\n".join([f"| {of} | here |", "|---|---|", *(f"| {name} | {text} |" for name, text in cells)])


def names_on_the_page() -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", NAMES.read_text(), re.M)) if NAMES.exists() else set()


def names() -> str:
    known = sorted(names_on_the_page() | {*ELSEWHERE, *torch.compiler.__all__, *torch._dynamo.__all__})
    ours = [(name, first_paragraph(name)) for name in known if name in onegraph.__all__]
    others = [(name, ELSEWHERE[name]) for name in known if name in ELSEWHERE]
    assert len(ours) + len(others) == len(known)
    parts = [HEAD_OF_NAMES, table(ours, "name"), HEAD_OF_ELSEWHERE, table(others, "name")]
    return "\n\n".join(parts) + "\n"


def settings() -> Iterator[str]:
    yield HEAD_OF_SETTINGS
    for kind, head, text in KINDS:
        yield head
        yield table([(name, text(row)) for name, row in sorted(ROWS.items()) if isinstance(row, kind)], "setting")


def own_settings() -> str:
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for each in fields(onegraph.Config):
        default = "" if each.default is MISSING else f"`{each.default!r}`"
        rows.append(f"| `{each.name}` | {default} | {each.metadata['doc']} |")
    return "\n".join([HEAD_OF_OWN, "", *rows]) + "\n"


def test_the_page_of_own_settings_is_current(golden: Callable[..., None]) -> None:
    golden(OWN, own_settings())


def test_the_page_of_names_is_current(golden: Callable[..., None]) -> None:
    golden(NAMES, names())


def test_the_page_of_settings_is_current(golden: Callable[..., None]) -> None:
    golden(SETTINGS, "\n\n".join(settings()) + "\n")


def test_each_name_and_setting_is_on_its_page() -> None:
    assert {*torch.compiler.__all__, *torch._dynamo.__all__} <= names_on_the_page()
    assert set(ROWS) == set(re.findall(r"^\| `([^`]+)` \|", SETTINGS.read_text(), re.M))
