"""`python writing.py CONTENDER MODEL BATCH CACHE [shared]`, in a process of its own: let a model write, print the cost.

Printed are seconds of the first sentence, what is compiled included; tokens per second of later ones; how many graphs
were compiled in the first sentence, and how many in those after it, whose prompt is longer; the largest error of
logits, relative to the largest logit. `shared`: one thread and its CPU time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sequence import counted  # noqa: E402 - the path is known before

TOKENS, PROMPTS, SENTENCES = 64, (12, 17), 3
Inputs = dict[str, Tensor]
Case = tuple[
    nn.Module, Callable[[int, int], Inputs]
]  # the model, and its inputs for so many sentences of such a length


def words(vocabulary: int) -> Callable[[int, int], Inputs]:
    def prompt(batch: int, length: int) -> Inputs:
        return {"input_ids": torch.randint(10, vocabulary, (batch, length))} | {
            "attention_mask": torch.ones(batch, length, dtype=torch.long)
        }

    return prompt


def gpt2() -> Case:
    """GPT-2 small"""
    import transformers

    return transformers.GPT2LMHeadModel(transformers.GPT2Config()), words(50_000)


def llama() -> Case:
    """Llama, 110M"""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=32_000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12
    )
    return transformers.LlamaForCausalLM(config), words(32_000)


def t5() -> Case:
    """T5 small"""
    import transformers

    config = transformers.T5Config(decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config), words(32_000)


def whisper() -> Case:
    """Whisper tiny"""
    import transformers

    config = transformers.WhisperConfig(suppress_tokens=None, begin_suppress_tokens=None)
    model = transformers.WhisperForConditionalGeneration(config)
    return model, lambda batch, length: {
        "input_features": torch.randn(batch, 80, 3000),
        "decoder_input_ids": torch.randint(10, 50_000, (batch, length)),
    }


CASES: dict[str, Callable[[], Case]] = {case.__name__: case for case in (gpt2, llama, t5, whisper)}


def main(contender: str, key: str, batch: str, cache: str, shared: str = "") -> None:
    if shared:
        torch.set_num_threads(1)
    clock = thread_time if shared else perf_counter
    torch.manual_seed(0)
    model, inputs = CASES[key]()
    model.eval()
    prompts = [inputs(int(batch), length) for length in PROMPTS]
    for name in ("eos_token_id", "pad_token_id", "forced_eos_token_id"):
        setattr(model.generation_config, name, 0 if name == "pad_token_id" else None)
    kept = {"static": {"cache_implementation": "static", "disable_compile": True}, "dynamic": {}}[cache]

    def write(writer: Any, prompt: Inputs, **more: Any) -> Any:
        return writer.generate(**prompt, do_sample=False, max_new_tokens=TOKENS, **kept, **more)

    def told(writer: Any) -> list[Any]:
        return [write(writer, prompt, return_dict_in_generate=True, output_logits=True) for prompt in prompts]

    expected = told(model)
    graphs = [0]
    writer = model
    # An encoder is called by `generate` itself, past the compiled model.
    encoder = model.get_encoder() if model.config.is_encoder_decoder else None
    if contender == "stock":
        for module in filter(None, (encoder, model)):
            module.forward = torch.compile(module.forward)
    elif contender == "onegraph":
        compile = counted(graphs)
        if encoder is not None:
            encoder.forward = compile(encoder.forward)
        writer = compile(model)

    def compiled() -> int:
        return torch._dynamo.utils.counters["stats"]["unique_graphs"] if contender == "stock" else graphs[0]

    start = clock()
    write(writer, prompts[0])
    first, compiled_first = clock() - start, compiled()
    found = told(writer)
    start = clock()
    for _ in range(SENTENCES):
        write(writer, prompts[1])
    speed = SENTENCES * TOKENS * int(batch) / (clock() - start)
    cost = {"first": first, "speed": speed, "graphs": compiled_first, "later_graphs": compiled() - compiled_first}
    print(json.dumps(cost | {"error": max(map(error, expected, found))}), flush=True)


def error(expected: Any, found: Any) -> float:
    """The largest of all logits that the same tokens led to: after a token that differs nothing can be compared."""
    worst = 0.0
    differs = (expected.sequences != found.sequences).any(0).nonzero().flatten()
    count = len(expected.logits)
    same = count if not len(differs) else int(differs[0]) - (expected.sequences.shape[1] - count) + 1
    for one, other in list(zip(expected.logits, found.logits, strict=True))[:same]:
        worst = max(worst, float((one - other).abs().max() / one.abs().max()))
    return worst


if __name__ == "__main__":
    main(*sys.argv[1:])
