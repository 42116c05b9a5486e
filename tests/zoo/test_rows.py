"""The rows themselves: a test is only worth something if its model is deterministic and depends on its inputs."""

from __future__ import annotations

import pytest
import torch

from .compare import difference, largest_error
from .fingerprint import changes, fingerprint, torch_state
from .models import MODELS
from .row import Model


@pytest.mark.parametrize("model", [pytest.param(m, id=m.name, marks=pytest.mark.slow) for m in MODELS])
def test_row_is_fit_for_a_test(model: Model) -> None:
    """Eager is deterministic, leaves torch and the weights alone, and its result depends on the inputs."""
    module, other = model.build(), model.build()
    with torch.no_grad():
        before = fingerprint(module)
        args, kwargs = model.inputs(1)
        one = module(*args, **kwargs)
        assert not {name for name in torch_state() if name in "".join(changes(before, fingerprint(module)))}
        args, kwargs = model.inputs(1)
        assert difference(one, other(*args, **kwargs), tolerance=1e-6) == ""
        args, kwargs = model.inputs(2)
        assert largest_error(one, other(*args, **kwargs)) > 1e-4
