"""Every module of torch.nn, made in each way that torch's own tests make it: forward, gradients, buffers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.utils._pytree import tree_leaves

import onegraph


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("info", module_db, ids=lambda info: info.name)
def test_module(info: ModuleInfo, backend: str) -> None:
    for module, args, kwargs in cases(info):
        twin, twin_args, twin_kwargs = copy.deepcopy((module, args, kwargs))
        expected = outcome(module, module, args, kwargs)
        found = outcome(twin, onegraph.compile(twin, backend=backend), twin_args, twin_kwargs)
        assert type(expected) is type(found), found
        if isinstance(expected, Exception):
            assert str(expected) == str(found)
        else:
            torch.testing.assert_close(found, expected, equal_nan=True, rtol=2e-5, atol=2e-5)


def cases(info: ModuleInfo) -> Iterator[tuple[torch.nn.Module, Any, Any]]:
    for training in (False, True):
        inputs = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
        )
        for given in inputs:
            if given.forward_input is None:
                continue
            torch.manual_seed(0)
            module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            yield module.train(training), given.forward_input.args, given.forward_input.kwargs


def outcome(module: torch.nn.Module, call: Any, args: Any, kwargs: Any) -> Any:
    """Results, gradients of the parameters, buffers, and the next random number; or the exception."""
    torch.manual_seed(1)
    try:
        results = [value for value in tree_leaves(call(*args, **kwargs)) if isinstance(value, torch.Tensor)]
        loss = sum(value.sin().sum() for value in results if value.is_floating_point())
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            loss.backward()
    except Exception as error:
        return error
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    return [value.detach() for value in results], gradients, list(module.buffers()), torch.rand(1)
