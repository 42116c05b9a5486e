"""Programs that check the contents of tensors. They stand here as pytest rewrites the assertions of test files."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import Categorical, Normal

SEEN: list[Any] = []


def positive(x):
    if not (x > 0).all():
        raise ValueError(f"not positive: {x}")
    return x.sqrt()


def asserted(x):
    assert (x > 0).all(), "not positive"
    return x * 2


def of_float(x):
    if x.sum() - 6:
        raise ValueError
    return x + 1


def writes_later(x):
    assert (x > 0).all()
    x.mul_(2)
    return x + 1


def draws_around(x):
    noise = torch.rand(3)
    if (x < 0).any():
        raise KeyError("negative")
    return x + noise * torch.rand(3)


def tells_around(x):
    SEEN.append("before")
    with torch.no_grad():
        if (x < 0).any():
            SEEN.append("bad")
            raise KeyError("negative")
    SEEN.append("behind")
    return x + 1


def inner(x):
    assert (x > 0).all()
    return x - 1


def caught_outside(x):
    try:
        SEEN.append(inner(x).sum().item())
    except AssertionError:
        SEEN.append("caught")
    return x + 1


def indexes(x):
    places = x.long() - 1
    if (places > 2).any() or x.dim() == 2:
        raise ValueError("no such place")
    return torch.arange(3.0)[places.abs()]


def in_a_loop(x):
    for step in range(3):
        x = x + step
        if (x < 0).all():
            raise ValueError(step)
    return x


def in_nested_blocks(x):
    with torch.no_grad(), torch.autograd.set_detect_anomaly(False):
        assert (x > 0).all()
    return x + 1


# ---- what is no check ------------------------------------------------------------------------------------------------


def raises_and_catches(x):
    try:
        if (x < 0).any():
            raise KeyError
    except KeyError:
        return x - 1
    return x + 1


def returns_early(x):
    if (x < 0).any():
        return x - 1
    return x + 1


def raises_on_both_sides(x):
    if (x < 0).any():
        raise KeyError("negative")
    raise ValueError("positive")


def raises_after_a_question(x):
    if (x < 0).any() and x.dim() == 1:
        raise KeyError("negative")
    return x + 1


def of_many(x):
    if x > 0:
        raise ValueError
    return x


def keeps_the_condition(x):
    bad = (x < 0).any() or (x > 5).all()
    if bad:
        raise ValueError(bad.item())
    return x + 1


def behind_a_write(x):
    x.add_(1)
    assert (x > 0).all()
    return x + 1


def leaves_an_attribute(x):
    y = x * 2
    assert (x > 0).all(), "not positive"
    y.sum().backward()
    return x.grad * 1


# ---- distributions ---------------------------------------------------------------------------------------------------


def normal(x):
    return Normal(x, x.exp(), validate_args=True).log_prob(x * 2)


def drawn(x):
    return Normal(x, x.exp(), validate_args=True).rsample()


def categorical(x):
    choices = Categorical(logits=x, validate_args=True)
    return choices.log_prob(torch.tensor(2)) + choices.entropy()


def scale_of(x):
    return Normal(0.0, x, validate_args=True).sample()
