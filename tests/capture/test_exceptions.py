"""What exceptions carry is eager's."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

total_count = 3


class Scale:
    factor = 2


def shown(error: BaseException) -> str:
    """What the interpreter prints of an uncaught exception."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        sys.__excepthook__(type(error), error, error.__traceback__)
    return text.getvalue()


MISSPELLED: dict[str, Callable[[torch.Tensor], Any]] = {
    "attribute": lambda x: Scale().factr,
    "attribute of a class": lambda x: Scale.factr,
    "attribute of a module": lambda x: sys.versio,
    "global": lambda x: total_coun,  # noqa: F821
    "builtin": lambda x: ZeroDivisionErr,  # noqa: F821
    "local": lambda long_name: long_nam,  # noqa: F821
}


@pytest.mark.parametrize("program", MISSPELLED.values(), ids=list(MISSPELLED))
def test_names_are_suggested(program: Callable[[torch.Tensor], Any]) -> None:
    def f(x: torch.Tensor) -> tuple[str, str, bool]:
        try:
            program(x)
        except (AttributeError, NameError) as error:
            return shown(error), error.name, error.__suppress_context__

    x = torch.ones(2)
    expected = f(x)
    assert onegraph.compile(f, backend="eager")(x) == expected
    assert "Did you mean" in expected[0]


@pytest.mark.parametrize("program", [lambda x: x.shap, lambda x: (x + 1).shap])
def test_a_tensor_that_lacks_an_attribute_is_told(program: Callable[[torch.Tensor], Any]) -> None:
    def f(x: torch.Tensor) -> tuple[str, str, torch.Tensor]:
        try:
            program(x)
        except AttributeError as error:
            return str(error), error.name, error.obj

    x = torch.ones(2)
    (text, name, obj), expected = onegraph.compile(f, backend="eager")(x), f(x)
    assert (text, name) == expected[:2] and torch.equal(obj, expected[2]) and (obj is x) == (expected[2] is x)
