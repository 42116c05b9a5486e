"""The programs of the suite `warm`, each with its first calls: built without any of the contenders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

SMALL = "x+1"


@dataclass(frozen=True, slots=True)
class Program:
    """`build` gives what is compiled, and the arguments by name of its first calls; `trained`: with gradients."""

    key: str
    name: str
    build: Callable[[], tuple[Any, list[dict[str, Any]]]]
    trained: bool = False


def small() -> tuple[Any, list[dict[str, Any]]]:
    import torch

    return (lambda x: x + 1), [{"x": torch.randn(8)}]


def model(key: str) -> tuple[Any, list[dict[str, Any]]]:
    from benchmarks.zoo import MODELS

    (found,) = (each for each in MODELS if each.key == key)
    target, inputs = found.build()
    return target, [inputs]


def llama() -> tuple[Any, list[dict[str, Any]]]:
    """Four layers, called with two lengths: the second makes sizes symbols."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=4,
        num_attention_heads=12,
        vocab_size=32000,
        use_cache=False,
    )
    calls = [{"input_ids": torch.randint(config.vocab_size, (1, length))} for length in (128, 96)]
    return transformers.LlamaForCausalLM(config).eval(), calls


def learner(key: str) -> tuple[Any, list[dict[str, Any]]]:
    from benchmarks.learners import LEARNERS, built

    (found,) = (each for each in LEARNERS if each.key == key)
    target, inputs = built(found)
    return target, [inputs]


def gpt() -> tuple[Any, list[dict[str, Any]]]:
    """Six layers of 384."""
    import transformers

    from benchmarks.learners import language

    config = transformers.GPT2Config(n_layer=6, n_embd=384, n_head=6, use_cache=False)
    target, inputs = language(transformers.GPT2LMHeadModel(config))
    return target.train(), [inputs]


def breaks() -> tuple[Any, list[dict[str, Any]]]:
    """Ten graph breaks, each at a branch that only the data decide."""
    import torch

    def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.gelu(x @ w)
        if x.abs().max() > 100:
            x = x / 2
        x = (x @ w).tanh() * 3
        if x.abs().max() > 101:
            x = x / 3
        x = torch.nn.functional.silu(x @ w) + x
        if x.abs().max() > 102:
            x = x / 4
        x = (x @ w).sin() + x.cos()
        if x.abs().max() > 103:
            x = x / 5
        x = (x @ w).softmax(-1) * 8
        if x.abs().max() > 104:
            x = x / 6
        x = torch.nn.functional.gelu(x @ w)
        if x.abs().max() > 105:
            x = x / 7
        x = (x @ w).tanh() * 3
        if x.abs().max() > 106:
            x = x / 8
        x = torch.nn.functional.silu(x @ w) + x
        if x.abs().max() > 107:
            x = x / 9
        x = (x @ w).sin() + x.cos()
        if x.abs().max() > 108:
            x = x / 10
        x = (x @ w).softmax(-1) * 8
        if x.abs().max() > 109:
            x = x / 11
        return x.sum()

    return scaled, [{"x": torch.randn(16, 64), "w": torch.randn(64, 64) / 8}]


PROGRAMS = (
    Program(SMALL, "x + 1, import onegraph counted", small),
    Program("gpt2", "GPT-2 small", lambda: model("gpt2")),
    Program("bert", "BERT-base", lambda: model("bert")),
    Program("vit", "ViT-base", lambda: model("vit")),
    Program("resnet", "ResNet-50", lambda: model("resnet")),
    Program("llama4", "Llama, 4 layers, two lengths", llama),
    Program("t5", "T5-small", lambda: model("t5")),
    Program("train_bert", "BERT-base, a step of training", lambda: learner("bert"), True),
    Program("train_gpt", "GPT of 6 layers, a step of training", gpt, True),
    Program("breaks", "ten graph breaks", breaks),
)


def program(key: str, among: Iterable[Program] = PROGRAMS) -> Program:
    """The program of that key.

    Raises:
        ValueError: if there is none.
    """
    for each in among:
        if each.key == key:
            return each
    raise ValueError(f"unknown program {key!r}; accepted: {', '.join(each.key for each in among)}")
