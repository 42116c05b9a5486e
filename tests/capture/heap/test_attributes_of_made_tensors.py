"""Python attributes of tensors that the graph makes: read and set in the graph, and set on the real ones behind it."""

from __future__ import annotations

import copy

import pytest
import torch

import onegraph

BACKENDS = ("eager", "aot_eager", "native")


def marked(x):
    y = x + 1
    y.scale = 2.0
    y.given = x
    y.own = y
    y.others = [y, x * 3]
    y.passing = 1
    del y.passing
    return y * y.scale + y.given, y


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes_are_on_the_result(backend: str) -> None:
    x = torch.randn(3)
    found, y = onegraph.compile(marked, backend=backend, fullgraph=True)(x)
    torch.testing.assert_close(found, marked(x)[0])
    assert vars(y).keys() == {"scale", "given", "own", "others"}
    assert y.own is y and y.given is x and y.others[0] is y
    torch.testing.assert_close(y.others[1], x * 3)


def asked(x):
    y = x * 2
    y.scale = 3
    errors = []
    for action in (lambda: y.missing, lambda: delattr(y, "missing"), lambda: (x + y).scale):
        try:
            action()
        except AttributeError as error:
            errors.append(str(error))
    y += 1
    return y.view(-1), errors, hasattr(y, "scale"), hasattr(y.view(-1), "scale"), getattr(y, "missing", 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_asked_is_eagers_answer(backend: str) -> None:
    x = torch.randn(3)
    found, wanted = onegraph.compile(asked, backend=backend, fullgraph=True)(x), asked(x)
    torch.testing.assert_close(found[0], wanted[0])
    assert found[1:] == wanted[1:]


def copied(x):
    y = x + 1
    y.scale = 2
    return hasattr(copy.copy(y), "scale"), hasattr(copy.deepcopy(y), "scale")


@pytest.mark.parametrize("backend", BACKENDS)
def test_copies_have_the_attributes(backend: str) -> None:
    compiled = onegraph.compile(copied, backend=backend)
    for _ in range(2):
        assert compiled(torch.ones(2)) == copied(torch.ones(2)) == (True, True)


def across_a_break(x):
    y = x * 2
    y.scale = 3
    onegraph.graph_break()
    y.scale += 1
    return y * y.scale, y


def test_attributes_live_across_a_break() -> None:
    x = torch.randn(3)
    found, y = onegraph.compile(across_a_break)(x)
    torch.testing.assert_close(found, across_a_break(x)[0])
    assert vars(y) == {"scale": 4}


def trained(x):
    loss = (x * 2).sum()
    loss.details = {"size": x.shape[0], "mean": x.mean()}
    return loss


def test_loss_with_details() -> None:
    x = torch.randn(3, requires_grad=True)
    loss = onegraph.compile(trained, fullgraph=True)(x)
    loss.backward()
    assert x.grad is not None and x.grad.tolist() == [2.0] * 3
    assert loss.details["size"] == 3
    torch.testing.assert_close(loss.details["mean"], x.mean())
