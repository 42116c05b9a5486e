"""Every model of the zoo is one graph, computes what eager does, is not compiled twice, and is left as it was."""

from __future__ import annotations

import pytest

from .models import MODELS
from .row import Model
from .train import train
from .trial import attempt

# Few, and as different as can be: the default run.
QUICK = frozenset(
    (
        "gpt2",
        "llama-lm",
        "bert",
        "mamba",
        "resnet",
        "vit",
        "lstm",
        "multihead-attention",
    )
)

rows = pytest.mark.parametrize(
    "model", [pytest.param(m, id=m.name, marks=() if m.name in QUICK else pytest.mark.slow) for m in MODELS]
)


@rows
def test_captured_as_one_graph(model: Model) -> None:
    assert attempt(model, backend="eager").failures == ()


@rows
def test_compiled_to_native_code(model: Model) -> None:
    assert attempt(model, backend="native").failures == ()


@rows
def test_gradients_are_eagers(model: Model) -> None:
    assert train(model).failures == ()


def test_names_are_unique() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS)
    assert {model.name for model in MODELS} >= QUICK
