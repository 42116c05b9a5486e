"""Text generation over a window of fixed size: a causal model does not look behind the last token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from models import TOKENS
from torch import nn

_SYLLABLES = [consonant + vowel for consonant in "bdfghklmnprstvz" for vowel in "aeiou"]


def word(token: int) -> str:
    """A pronounceable name for a token: there is no tokenizer here, and random weights know no words."""
    first, second = divmod(token, len(_SYLLABLES))
    return (_SYLLABLES[first // len(_SYLLABLES)] if first >= len(_SYLLABLES) else "") + (
        _SYLLABLES[first % len(_SYLLABLES)] + _SYLLABLES[second]
    )


def write(model: nn.Module, count: int, say: Callable[[int, str], None], seed: int = 0) -> None:
    """Sample `count` tokens, telling each as it comes."""
    random = torch.Generator().manual_seed(seed)
    window = torch.zeros(1, TOKENS, dtype=torch.long)
    for position in range(count):
        logits = model(input_ids=window).logits[0, position]
        token = int(torch.multinomial(torch.softmax(logits.double() / 0.8, -1), 1, generator=random))
        window[0, position + 1] = token
        say(token, word(token))
