"""What a row of the zoo is, and the inputs that rows share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers
from torch import nn

transformers.logging.set_verbosity_error()

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
VOCABULARY = 96


@dataclass(frozen=True, slots=True)
class Model:
    """A kind of model: `build` makes it in eval mode, `inputs` makes the arguments of one call from a seed."""

    name: str
    family: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], Arguments]


def seeded(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The same random weights at every build; the global generator is left alone."""

    def build() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return make().eval()

    return build


def transformer(name: str, family: str, model: str, inputs: Callable[[int], Arguments], /, **config: Any) -> Model:
    """A model of transformers by the name of its class, with a configuration of the class that belongs to it."""

    def make() -> nn.Module:
        cls = getattr(transformers, model)
        return cls(cls.config_class(**config))

    return Model(name, family, seeded(make), inputs)


def warmed(model: Model) -> Model:
    """A model whose first call writes to itself (hooks, caches): it is built and called once."""

    def build() -> nn.Module:
        made = model.build()
        args, kwargs = model.inputs(0)
        with torch.no_grad():
            made(*args, **kwargs)
        return made

    return replace(model, build=build)


def module(name: str, make: Callable[[], nn.Module], inputs: Callable[[int], Arguments]) -> Model:
    """One of torch's own modules."""
    return Model(name, "torch", seeded(make), inputs)


# ---- inputs ----------------------------------------------------------------------------------------------------------


def integers(generator: torch.Generator, *shape: int) -> torch.Tensor:
    # The lowest numbers are the special tokens of most models.
    return torch.randint(5, VOCABULARY, shape, generator=generator)


def tokens(length: int = 9, masked: bool = False, batch: int = 2, **extra: Any) -> Callable[[int], Arguments]:
    """Token numbers; `masked` adds an attention mask with padding at the end of the last sequence."""

    def inputs(seed: int) -> Arguments:
        ids = integers(torch.Generator().manual_seed(seed), batch, length)
        keywords = {"input_ids": ids, **extra}
        if masked:
            keywords["attention_mask"] = padding(batch, length)
        return (), keywords

    return inputs


def padding(batch: int, length: int) -> torch.Tensor:
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, -2:] = 0
    return mask


def translation(length: int = 9, answer: int = 5) -> Callable[[int], Arguments]:
    """Tokens for an encoder, with a mask, and tokens for a decoder."""

    def inputs(seed: int) -> Arguments:
        generator = torch.Generator().manual_seed(seed)
        return (), {
            "input_ids": integers(generator, 2, length),
            "attention_mask": padding(2, length),
            "decoder_input_ids": integers(generator, 2, answer),
        }

    return inputs


def images(size: int = 32, batch: int = 2) -> Callable[[int], Arguments]:
    return floats("pixel_values", batch, 3, size, size)


def floats(keyword: str, *shape: int, **extra: Any) -> Callable[[int], Arguments]:
    def inputs(seed: int) -> Arguments:
        generator = torch.Generator().manual_seed(seed)
        return (), {keyword: torch.randn(shape, generator=generator), **extra}

    return inputs


def captioned_images(length: int = 9, picture: int | None = None) -> Callable[[int], Arguments]:
    """Images of 4 x 4 patches and texts; `picture` is the token that stands for a patch where the text holds them."""

    def inputs(seed: int) -> Arguments:
        generator = torch.Generator().manual_seed(seed)
        ids = integers(generator, 2, length)
        if picture is not None:
            ids[:, 1:17] = picture
        return (), {
            "input_ids": ids,
            "attention_mask": padding(2, length),
            "pixel_values": torch.randn(2, 3, 32, 32, generator=generator),
        }

    return inputs


def heard_speech(frames: int, answer: int = 5) -> Callable[[int], Arguments]:
    """A spectrogram for an encoder and tokens for a decoder."""

    def inputs(seed: int) -> Arguments:
        generator = torch.Generator().manual_seed(seed)
        features = torch.randn(2, 16, frames, generator=generator)
        return (), {"input_features": features, "decoder_input_ids": integers(generator, 2, answer)}

    return inputs


def positional(*shapes: tuple[int, ...]) -> Callable[[int], Arguments]:
    def inputs(seed: int) -> Arguments:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator) for shape in shapes), {}

    return inputs
