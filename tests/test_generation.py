"""Transformers' `generate` of a compiled model writes eager's tokens and compiles a few graphs, however it searches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

SIZES = {"vocab_size": 97, "num_hidden_layers": 2, "num_attention_heads": 2}
ENDS = {"eos_token_id": None, "pad_token_id": 0}


def decoder(seed: int = 0) -> Any:
    config = transformers.LlamaConfig(
        **SIZES, hidden_size=32, intermediate_size=48, num_key_value_heads=1, initializer_range=0.3
    )
    torch.manual_seed(seed)
    return writing(transformers.LlamaForCausalLM(config))


def gpt() -> Any:
    torch.manual_seed(0)
    return writing(transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES, n_embd=32, initializer_range=0.3)))


def encoder_decoder() -> Any:
    config = transformers.T5Config(
        vocab_size=97, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2, decoder_start_token_id=1
    )
    torch.manual_seed(0)
    return writing(transformers.T5ForConditionalGeneration(config))


def writing(model: Any) -> Any:
    for name, value in ENDS.items():
        setattr(model.generation_config, name, value)
    return model.eval()


def prompt(batch: int, length: int) -> dict[str, Tensor]:
    ids = torch.randint(2, 97, (batch, length), generator=torch.Generator().manual_seed(length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def written(model: Any, given: dict[str, Tensor], **how: Any) -> Tensor:
    torch.manual_seed(7)
    return model.generate(**given, max_new_tokens=12, **how)


MODELS = {"llama": decoder, "gpt2": gpt, "t5": encoder_decoder}
STATIC = {"cache_implementation": "static", "disable_compile": True}
HOW: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "greedy, static": {"do_sample": False, **STATIC},
    "sampling": {"do_sample": True, "top_k": 20, "temperature": 0.9},
    "beams": {"do_sample": False, "num_beams": 4},
    "two sentences": {"do_sample": True, "num_return_sequences": 2},
}


#: The prompt and one step; then both with symbols for what changes: the length of prompts, the batch. A longer prompt
#: changes the sizes that the steps of T5 see.
SENTENCES = ((1, 5), (1, 5), (1, 9), (1, 13), (3, 6), (3, 9))
FIRST, NEW_LENGTH, NEW_BATCH = 2, {"llama": 1, "gpt2": 1, "t5": 2}, 4


@pytest.mark.parametrize("model", ["llama", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "t5"))])
@pytest.mark.parametrize("how", HOW)
def test_tokens_are_those_of_eager(model: str, how: str) -> None:
    onegraph.reset()
    eager = MODELS[model]()
    compiled = onegraph.compile(copy.deepcopy(eager))
    graphs = []
    for batch, length in SENTENCES:
        given = prompt(batch, length)
        with Watch() as watch:
            assert torch.equal(written(compiled, given, **HOW[how]), written(eager, given, **HOW[how]))
        graphs.append(len(watch.of(ev.GraphCaptured)))
        assert not watch.of(ev.GraphBroken)
    static = how.endswith("static")  # each length of the cache is a size of it: the step changes with the prompt
    assert graphs[0] <= FIRST and graphs[2] <= NEW_LENGTH[model] + static
    assert graphs[1] == graphs[3] == 0 and sum(graphs[4:]) <= NEW_BATCH


@pytest.mark.slow  # the cache is cropped, and the strides of what is left have versions of their own
def test_an_assistant_proposes_tokens() -> None:
    onegraph.reset()
    eager, small = decoder(), decoder(seed=1)
    compiled, assistant = onegraph.compile(copy.deepcopy(eager)), onegraph.compile(copy.deepcopy(small))
    for length in (5, 9):
        given = prompt(1, length)
        found = written(compiled, given, do_sample=False, assistant_model=assistant)
        assert torch.equal(found, written(eager, given, do_sample=False, assistant_model=small))
