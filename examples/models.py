"""Four real architectures at their real sizes, with random weights: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers
from torch import Tensor, nn

transformers.logging.set_verbosity_error()

TOKENS = 128
PIXELS = 224


@dataclass(frozen=True, slots=True)
class Workload:
    """A model in eval mode and one batch for it."""

    key: str
    name: str
    build: Callable[[], tuple[nn.Module, dict[str, Tensor]]]


def gpt2(layers: int = 12) -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.GPT2Config(n_layer=layers, use_cache=False)
    return transformers.GPT2LMHeadModel(config).eval(), {"input_ids": torch.randint(config.vocab_size, (1, TOKENS))}


def bert() -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.BertConfig()
    tokens = torch.randint(config.vocab_size, (1, TOKENS))
    return transformers.BertModel(config).eval(), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def vit() -> tuple[nn.Module, dict[str, Tensor]]:
    model = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))
    return model.eval(), {"pixel_values": torch.randn(1, 3, PIXELS, PIXELS)}


def resnet() -> tuple[nn.Module, dict[str, Tensor]]:
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))
    return model.eval(), {"pixel_values": torch.randn(1, 3, PIXELS, PIXELS)}


WORKLOADS = (
    Workload("gpt2", "GPT-2 small", gpt2),
    Workload("bert", "BERT-base", bert),
    Workload("vit", "ViT-base", vit),
    Workload("resnet", "ResNet-50", resnet),
)


def tensors(output: object) -> list[Tensor]:
    """All tensors of a model's output, in order."""
    match output:
        case Tensor():
            return [output]
        case dict():
            return [t for value in output.values() for t in tensors(value)]
        case list() | tuple():
            return [t for value in output for t in tensors(value)]
    return []


def relative_error(expected: object, actual: object) -> float:
    """The largest difference between two outputs, relative to the largest value of the tensor that it is in."""
    pairs = zip(tensors(expected), tensors(actual), strict=True)
    return max(((e - a).abs().max() / e.abs().max().clamp_min(1e-30)).item() for e, a in pairs)
