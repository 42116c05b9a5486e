"""Warnings and messages to loggers come from behind the graph, and tell the lines of the program all the same."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

LOG = logging.getLogger(__name__)
STREAM = io.StringIO()
HANDLER = logging.StreamHandler(STREAM)
HANDLER.setFormatter(logging.Formatter("%(levelname)s %(pathname)s %(funcName)s:%(lineno)d %(message)s"))
LOG.addHandler(HANDLER)
LOG.setLevel(logging.INFO)
LOG.propagate = False


def inner(x):
    LOG.info("inner")
    LOG.warning("of the caller", stacklevel=2)
    LOG.debug("not shown")
    warnings.warn("inner", stacklevel=1)
    warnings.warn("of the caller", stacklevel=2)
    warnings.warn("of its caller", UserWarning, 3)
    return x + 1


def places(x):
    x = x * 2
    LOG.info("outer %s", 3)
    x = inner(x)
    LOG.log(logging.ERROR, "behind %d and %s", 1, x)
    warnings.warn(UserWarning("outer"))  # noqa: B028
    return x * 3


def of_a_list_that_changes(x):
    items = [1]
    LOG.info("%s", items)
    items.append(2)
    LOG.info("%s", items)
    return x + len(items)


def of_a_tensor_that_changes(x):
    y = x + 1
    LOG.info("%s", y)
    y.add_(1)
    return y


def of_what_is_handled(x):
    try:
        raise ValueError("v")
    except ValueError:
        LOG.exception("caught")
        x = x + 1
    return x


def with_the_exception(x):
    try:
        raise ValueError("v")
    except ValueError as error:
        LOG.error("caught", exc_info=error)
        x = x + 1
    return x


def warnings_that_are_errors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("a")  # noqa: B028
        except UserWarning:
            x = x * 3
    return x + 1


def copies_of_tensors(x):
    y = torch.tensor(x) + 1
    LOG.info("between")
    return y + x.new_tensor(y.double()) + torch.tensor(y.sum(), dtype=torch.int64)


def messages(function: Callable[..., Any]) -> Any:
    STREAM.seek(0)
    STREAM.truncate()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [function(torch.ones(2)).tolist() for _ in range(2)]
    lines = [line for line in STREAM.getvalue().splitlines() if not line.startswith(" ")]
    return results, lines, [(str(each.message), each.category, each.filename, each.lineno) for each in caught]


#: How many breaks there are at least.
PROGRAMS = {
    places: 0,
    of_a_list_that_changes: 0,
    of_a_tensor_that_changes: 1,
    of_what_is_handled: 1,
    with_the_exception: 1,
    warnings_that_are_errors: 1,
    copies_of_tensors: 0,
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_messages_are_those_of_eager_mode(program: Callable[..., Any]) -> None:
    onegraph.reset()
    with Watch() as watch:
        seen = messages(onegraph.compile(program, backend="eager"))
    assert seen == messages(program)
    assert bool(watch.of(ev.GraphBroken)) == bool(PROGRAMS[program])


def test_a_copy_of_a_tensor_is_one_where_warnings_are_errors() -> None:
    def program(x):
        return torch.tensor(x) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="clone"):
            onegraph.compile(program, backend="eager")(torch.ones(2))
    with pytest.warns(UserWarning, match="clone"):
        assert not onegraph.compile(program)(torch.ones(2, requires_grad=True)).requires_grad
