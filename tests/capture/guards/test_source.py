"""Sources: paths to values from outside of the frame."""

from __future__ import annotations

import torch

from onegraph.capture.guards.source import Arg, Attr, DictOf, Item, describe


def test_a_path_is_hashed_once() -> None:
    asked = []

    class Key(str):
        def __hash__(self) -> int:
            asked.append(self)
            return 7

    source = Item(DictOf(Arg(0, "self")), Key("weight"))
    assert hash(Attr(source, "data")) == hash(Attr(source, "data"))
    assert len(asked) == 1


def test_a_key_that_is_a_tensor_is_named_by_its_shape() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3))
    state = Attr(Arg(0, "optimizer"), "state")
    assert describe(Item(Item(state, weight), "step")) == "optimizer.state[<Parameter of shape (2, 3)>]['step']"
