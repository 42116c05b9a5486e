"""Guards that a program does without."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

FACTOR = [2]


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 3
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0))

    def forward(self, x, n):
        return self.layers(x) * self.scale * FACTOR[0] * n


def versions(compiled: Any, *calls: Any) -> int:
    with recording(EVENTS, [ev.GraphCaptured]) as recorded:
        for call in calls:
            call()
    return len(recorded)


@pytest.mark.parametrize("home", [onegraph, torch.compiler])
@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("skip_guard_on_inbuilt_nn_modules_unsafe", {"scale", "FACTOR", "n", "size"}),
        ("skip_guard_on_all_nn_modules_unsafe", {"FACTOR", "n", "size"}),
        ("skip_guard_on_globals_unsafe", {"p", "scale", "n", "size"}),
        ("keep_tensor_guards_unsafe", {"size"}),
        ("keep_portable_guards_unsafe", {"size"}),
        ("skip_all_guards_unsafe", {"size"}),
    ],
)
def test_what_is_not_compiled_again(home: Any, name: str, again: set[str]) -> None:
    model = Scaled()
    filters = {"guard_filter_fn": getattr(home, name)}
    x = torch.ones(2, 4)
    for what in ("p", "scale", "FACTOR", "n", "size"):
        model.layers[1].p, model.scale, FACTOR[0] = 0.0, 3, 2
        compiled = onegraph.compile(model, options=filters, dynamic=False, backend="eager")
        torch.testing.assert_close(compiled(x, 1), model(x, 1))
        given, n = x, 1
        match what:
            case "p":
                model.layers[1].p = 0.25
            case "scale":
                model.scale = 5
            case "FACTOR":
                FACTOR[0] = 3
            case "n":
                n = 7
            case "size":
                given = torch.ones(3, 4)
        assert versions(compiled, lambda: compiled(given, n)) == (what in again), what  # noqa: B023
    FACTOR[0] = 2


def test_what_a_filter_is_told() -> None:
    seen: dict[str, Any] = {}

    def choose(entries: Any) -> list[bool]:
        seen.update({(entry.name, entry.guard_type): entry for entry in entries})
        return [True] * len(entries)

    model = Scaled()
    compiled = onegraph.compile(model, options={"guard_filter_fn": choose}, backend="eager")
    x = torch.ones(2, 4)
    compiled(x, 1)
    tensor = seen["args[0]", "TENSOR_MATCH"]
    assert tensor.has_value and tensor.value is x and not tensor.is_global and not tensor.is_parameter
    assert tensor.derived_guard_types == ("tensor",)
    assert "float32 tensor" in tensor.orig_guard.text
    weight = seen["self.layers[0].weight", "TENSOR_MATCH"]
    assert weight.is_parameter and weight.orig_guard.source.is_unspecialized_builtin_nn_module()
    scale = seen["self.scale", "EQUALS_MATCH"]
    assert scale.value == 3 and scale.orig_guard.source.is_unspecialized_nn_module()
    assert not scale.orig_guard.source.is_unspecialized_builtin_nn_module()
    assert seen["FACTOR[0]", "EQUALS_MATCH"].is_global
    assert ("", "GLOBAL_STATE") in seen and ("", "SHAPE_ENV") in seen


def test_answers_that_are_none() -> None:
    for choose, says in (
        (lambda entries: [True], "gave 1 answers for"),
        (lambda entries: 1 // 0, "ZeroDivisionError"),
    ):
        with pytest.raises(onegraph.InvalidArgument, match=says):
            onegraph.compile(lambda x: x + 1, options={"guard_filter_fn": choose})(torch.ones(2))
    with pytest.raises(onegraph.InvalidArgument, match="'guard_filter_fn' expects a function or None"):
        onegraph.compile(lambda x: x + 1, options={"guard_filter_fn": 3})


def test_memory_is_safe_without_guards() -> None:
    f = onegraph.compile(lambda x: (x + 1).sum(), options={"guard_filter_fn": onegraph.skip_all_guards_unsafe})
    for x in (torch.ones(100), torch.ones(3), torch.ones(2, 2).double(), torch.ones(64)[::2]):
        torch.testing.assert_close(f(x), (x + 1).sum())
