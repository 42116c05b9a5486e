"""Real models in small, and what is compared of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
Made = tuple[nn.Module, dict[str, Tensor]]


def words(model: nn.Module) -> Made:
    return model, {"input_ids": torch.randint(0, 50, (2, 9))}


def images(model: nn.Module) -> Made:
    return model, {"pixel_values": torch.randn(2, 3, 16, 16)}


def t5() -> Made:
    config = hf.T5Config(vocab_size=50, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2)
    return words(hf.T5EncoderModel(config))


def resnet() -> Made:
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return images(hf.ResNetModel(config))


MODELS: dict[str, Callable[[], Made]] = {
    "bert": lambda: words(hf.BertModel(hf.BertConfig(vocab_size=50, **SMALL))),
    "gpt2": lambda: words(hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2))),
    "llama": lambda: words(hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=50, num_key_value_heads=2, **SMALL))),
    "vit": lambda: images(hf.ViTModel(hf.ViTConfig(image_size=16, patch_size=8, **SMALL))),
    "resnet": resnet,
    "t5": t5,
}


def outcome(model: nn.Module, forward: Callable[..., Any], inputs: dict[str, Tensor], trains: bool) -> list[Tensor]:
    """The first output, and in training the gradients of all parameters; dropout draws what it draws."""
    torch.manual_seed(1)
    with torch.set_grad_enabled(trains):
        output = forward(**inputs)[0]
        if trains:
            output.square().mean().backward()
    return [output.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
