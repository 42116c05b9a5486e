"""`python -m benchmarks.gpu [--quick] [--save]` (`make bench-gpu`): what a GPU makes of our kernels, in one command.

First the tests of programs on devices run on it. Then come tables: kernels against the time in which the device copies
as many bytes, real models in bfloat16, what a launch costs, and the first call. Eager, the stock compiler and onegraph
take turns. Whatever fails is a word in its row, and the others go on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch
import torch.nn.functional as F
import transformers as hf
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Run, Sample, interleaved
from benchmarks.report import RESULTS
from benchmarks.zoo import tensors

TESTS = Path(__file__).resolve().parent.parent / "tests" / "gpu" / "on_device"
CALLS = 20  # between two times that the device is waited for
LAUNCHES = 100
Rows = Iterator[tuple[str, Mapping[str, str]]]


def gelu_chain(x: Tensor) -> Tensor:
    for _ in range(4):
        x = F.gelu(x) * 1.1 + 0.3
    return x


def chained(count: int) -> Callable[[Tensor], Tensor]:
    """Kernels that cannot be one: each needs a total of the one before."""

    def chain(x: Tensor) -> Tensor:
        for _ in range(count):
            x = x + x.sum()
        return x

    return chain


def kernels(side: int) -> Mapping[str, tuple[Callable[..., Tensor], tuple[Tensor, ...], int]]:
    """Each with the tensors of this size that it reads or writes."""
    x, y = (torch.randn(side, side, device="cuda") for _ in range(2))
    labels = torch.randint(0, side, (side,), device="cuda")
    return {
        "softmax": (lambda x: x.softmax(-1), (x,), 2),
        "layer norm": (lambda x: F.layer_norm(x, (x.shape[-1],)), (x,), 2),
        "cross entropy": (lambda x, labels: F.cross_entropy(x, labels), (x, labels), 1),
        "gelu x4": (gelu_chain, (x,), 2),
        "transposed sum": (lambda x, y: x.t() + y, (x, y), 3),
        "sum of columns": (lambda x: x.sum(0), (x,), 1),
        "sum of all": (lambda x: x.sum(), (x,), 1),
    }


def models(small: bool) -> Mapping[str, Callable[[], tuple[nn.Module, dict[str, Tensor]]]]:
    few: dict[str, Any] = {"num_hidden_layers": 1} if small else {}
    billion = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32}
    llama = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, **few} if small else billion

    def words(model: nn.Module) -> tuple[nn.Module, dict[str, Tensor]]:
        return model, {"input_ids": torch.randint(0, 1000, (1, 8) if small else (8, 512))}

    def images(model: nn.Module) -> tuple[nn.Module, dict[str, Tensor]]:
        return model, {"pixel_values": torch.randn(1 if small else 32, 3, 224, 224)}

    return {
        "BERT-base": lambda: words(hf.BertModel(hf.BertConfig(**few))),
        "GPT-2 small": lambda: words(hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False, **few))),
        "ViT-base": lambda: images(hf.ViTModel(hf.ViTConfig(**few))),
        "ResNet-50": lambda: images(hf.ResNetModel(hf.ResNetConfig(depths=[1, 1, 1, 1] if small else [3, 4, 6, 3]))),
        "Llama 1B": lambda: words(hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=32000, use_cache=False, **llama))),
    }


def waiting(run: Run, calls: int = 1) -> Run:
    """As many calls, and what the device has to do for them."""

    def waited() -> None:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()

    return waited


def timed(make: Callable[[Callable[[Any], Any]], Run], calls: int, rounds: int) -> dict[str, Sample | str]:
    """Seconds of one call of each contender; a word in the place of those that fail."""
    runs: dict[str, Run] = {}
    failed: dict[str, Sample | str] = {}
    for name, contender in CONTENDERS.items():
        try:
            reset()
            runs[name] = waiting(make(contender), calls)
            runs[name]()
        except Exception as error:
            runs.pop(name, None)
            failed[name] = type(error).__name__
    found = interleaved(runs, rounds) if runs else {}
    return failed | {name: Sample(s.median / calls, s.low / calls, s.high / calls) for name, s in found.items()}


def shown(found: Mapping[str, Sample | str], unit: float, least: float = 0.0) -> dict[str, str]:
    """In this unit, times faster than eager, and share of the least that is possible."""
    eager, cells = found["eager"], {}
    for name, each in found.items():
        if isinstance(each, str) or isinstance(eager, str):
            cells[name] = each if isinstance(each, str) else f"{each.median * unit:.3g}"
            continue
        share = f" {least / each.median:.0%}" if least else ""
        cells[name] = f"{each.median * unit:.3g} x{eager.median / each.median:.2f}{share}"
    return cells


def kernel_rows(quick: bool) -> Rows:
    side, calls = (64, 1) if quick else (8192, CALLS)
    source = torch.randn(side, side, device="cuda")
    copied = interleaved({"copy": waiting(lambda: torch.empty_like(source).copy_(source), calls)}, 3 if quick else 15)
    each = copied["copy"].median / calls / 2  # of a tensor that is read, or written
    for name, (function, inputs, passes) in kernels(side).items():

        def make(contender: Callable[[Any], Any], function: Any = function, inputs: Any = inputs) -> Run:
            compiled = contender(function)
            return lambda: compiled(*inputs)

        yield name, shown(timed(make, calls, 3 if quick else 15), 1e6, passes * each)


def model_rows(quick: bool, trains: bool) -> Rows:
    for name, build in models(quick).items():
        torch.manual_seed(0)
        model, inputs = build()
        model = model.bfloat16().cuda().train(trains)
        given = {key: (x.bfloat16() if x.is_floating_point() else x).cuda() for key, x in inputs.items()}

        def make(contender: Callable[[Any], Any], model: Any = model, given: Any = given) -> Run:
            compiled = contender(model)

            def call() -> None:
                with torch.set_grad_enabled(trains):
                    output = compiled(**given)
                    if trains:
                        model.zero_grad()
                        tensors(output)[0].float().square().mean().backward()

            return call

        yield name, shown(timed(make, 1, 3 if quick else 11), 1e3)


def launch_rows(quick: bool) -> Rows:
    x, count = torch.randn(32, device="cuda"), 3 if quick else LAUNCHES
    for mode in ("default", "reduce-overhead"):

        def make(contender: Callable[..., Any], mode: str = mode) -> Run:
            chain = chained(count)
            compiled = chain if contender is CONTENDERS["eager"] else contender(chain, mode=mode)
            return lambda: compiled(x)

        yield mode, shown(timed(make, 1 if quick else CALLS, 3 if quick else 15), 1e6 / count)


def first_call_rows(quick: bool) -> Rows:
    """CPU-seconds of the first call, with caches on disk as they are."""
    build = models(quick)["BERT-base"]
    cells: dict[str, str] = {}
    for name, contender in CONTENDERS.items():
        reset()
        model, inputs = build()
        model = model.bfloat16().cuda()
        compiled, given = contender(model), {key: x.cuda() for key, x in inputs.items()}
        start = process_time()
        try:
            with torch.no_grad():
                compiled(**given)
            torch.cuda.synchronize()
            cells[name] = f"{process_time() - start:.2f}"
        except Exception as error:
            cells[name] = type(error).__name__
    yield "BERT-base, bfloat16", cells


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: whether it all works")
    parser.add_argument("--save", action="store_true", help="write the tables to benchmarks/results/gpu.md")
    options = parser.parse_args(arguments)
    console = Console(width=160)
    if not torch.cuda.is_available():
        console.print("there is no GPU here: torch.cuda.is_available() is False")
        return 1
    device = torch.cuda.get_device_properties(0)
    where = f"{device.name}, capability {device.major}.{device.minor}, torch {torch.__version__}"
    console.print(where, highlight=False)
    status, note = 0, ""
    if device.name.startswith("simulated"):  # of whose process torch is a special one
        note = " (simulated)"
    else:
        status = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS)]).returncode
    tables: dict[str, Callable[[bool], Rows]] = {
        "Kernels: microseconds, times faster than eager, share of memory's speed": kernel_rows,
        "Inference, bfloat16: milliseconds, times faster than eager": lambda quick: model_rows(quick, False),
        "Steps of training, bfloat16: milliseconds, times faster than eager": lambda quick: model_rows(quick, True),
        f"Graphs of {LAUNCHES} sums that wait for each other: microseconds for each": launch_rows,
        "First call: CPU-seconds": first_call_rows,
    }
    told = [f"# {where}", ""]
    for title, rows in tables.items():
        table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
        lines = [f"## {title}", "", f"|  | {' | '.join(CONTENDERS)} |", "|---|" + "---:|" * len(CONTENDERS)]
        for header in ("", *CONTENDERS):
            table.add_column(header, justify="right" if header else "left")
        for name, cells in rows(options.quick):
            row = [name + note, *(cells.get(each, "-") for each in CONTENDERS)]
            table.add_row(*row)
            lines.append(f"| {' | '.join(row)} |")
        console.print(table)
        told += [*lines, ""]
    if options.save:
        (RESULTS / "gpu.md").write_text("\n".join(told))
    return status


if __name__ == "__main__":
    sys.exit(main())
