"""The pages of settings, and of torch's names and settings, are made from the tables of the package.

A name of any supported torch has its row: `--update-golden` keeps those of the page, and adds those of the installed
torch.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from types import MethodDescriptorType
from typing import Any

import numpy as np
import torch
import torch._dynamo
import torch._numpy as torch_numpy
from import_graph import ROOT

import onegraph
from onegraph.base.torch_names import ELSEWHERE
from onegraph.base.torch_settings import ROWS, Nothing, Refused, Row, Same
from onegraph.capture.policy.numpy.arrays import name_of
from onegraph.torchlib.arrays import joining, linear, making, reductions, ufuncs, views
from onegraph.torchlib.arrays.functions import FUNCTIONS

NAMES = ROOT / "docs" / "torch_names.md"
SETTINGS = ROOT / "docs" / "torch_settings.md"
OWN = ROOT / "docs" / "settings_table.md"
ARRAYS = ROOT / "docs" / "programming_model" / "numpy.md"

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


#: The parts of the table of NumPy's functions: what they are called, and the modules that declare them.
PARTS = {
    "universal functions": (ufuncs,),
    "reductions, ranks, sorting": (reductions,),
    "making arrays": (making,),
    "shapes and views": (views,),
    "choosing and joining": (joining,),
    "products, linear algebra, Fourier transforms": (linear,),
}
#: Why functions of NumPy that torch's compiler captures are left to NumPy.
LEFT = {
    "allclose array_equal array_equiv": "they give one truth value, of the elements: `np.isclose`, `(a == b).all()`",
    """argwhere bincount flatnonzero histogram histogram2d histogramdd nonzero
    unique""": "their sizes depend on the elements",
    """linalg.eig linalg.eigh linalg.eigvals linalg.lstsq linalg.qr linalg.slogdet linalg.svd linalg.matrix_rank
    linalg.cond""": "signs, order and rounding are those of the library that NumPy calls",
    """broadcast_arrays choose convolve copyto corrcoef correlate cov diag_indices_from diagflat
    fill_diagonal fix gradient i0 iscomplex isneginf isposinf isreal kaiser ldexp logspace modf
    geomspace put put_along_axis real_if_close resize rollaxis sinc tril_indices_from triu_indices_from vander cbrt
    linalg.multi_dot linalg.tensorinv linalg.tensorsolve""": "not written yet",
}
#: What is asked of types, and runs while tracing.
OF_TYPES = {"can_cast", "result_type", "min_scalar_type", "common_type"}


def arrays_table() -> str:
    rows = ["| | functions | in compiled code |", "|---|---|---|"]
    for title, modules in PARTS.items():
        names = [module.__name__ for module in modules]
        found = {name_of(f) for f, meaning in FUNCTIONS.items() if meaning.__module__ in names and not is_method(f)}
        rows.append(f"| {title} | {code(name.removeprefix('numpy.') for name in found)} | captured |")
    methods = code(f.__qualname__ for f in FUNCTIONS if is_method(f))
    rows.append(f"| methods of universal functions | {methods} | captured for the common ones |")
    rows += [f"| | {code(names.split())} | NumPy runs them: {why} |" for names, why in LEFT.items()]
    return "\n".join(rows)


def is_method(function: Any) -> bool:
    return isinstance(function, MethodDescriptorType)


def code(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in sorted(set(names)))


def test_the_table_of_functions_of_numpy_is_current(golden: Callable[..., None]) -> None:
    head, _, rest = ARRAYS.read_text().partition("| | functions |")
    golden(ARRAYS, head + arrays_table() + rest[rest.index("\n\nArrays have the methods") :])


def test_the_functions_of_numpy_that_torch_has_are_in_the_table() -> None:
    known = {name_of(function).removeprefix("numpy.") for function in FUNCTIONS}
    left = {name for names in LEFT for name in names.split()} | OF_TYPES
    for space in ("", "linalg", "fft"):
        of_torch = getattr(torch_numpy, space) if space else torch_numpy
        of_numpy = getattr(np, space) if space else np
        for name in vars(of_torch):
            function = getattr(of_numpy, name, None)
            if isinstance(function, type(np.sum) | np.ufunc) and function not in FUNCTIONS:
                assert f"{space}.{name}".removeprefix(".") in left, name
    assert not known & left


def test_the_page_of_own_settings_is_current(golden: Callable[..., None]) -> None:
    golden(OWN, own_settings())


def test_the_page_of_names_is_current(golden: Callable[..., None]) -> None:
    golden(NAMES, names())


def test_the_page_of_settings_is_current(golden: Callable[..., None]) -> None:
    golden(SETTINGS, "\n\n".join(settings()) + "\n")


def test_each_name_and_setting_is_on_its_page() -> None:
    assert {*torch.compiler.__all__, *torch._dynamo.__all__} <= names_on_the_page()
    assert set(ROWS) == set(re.findall(r"^\| `([^`]+)` \|", SETTINGS.read_text(), re.M))
