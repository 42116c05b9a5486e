"""`python one_model.py MODEL PRECISION THREADS ROUNDS WITHOUT`, in a process of its own: all contenders run a model, in
turn, but those whose names follow.

Printed are, as JSON, what each contender takes for a call and to its first result, its largest error, and why those
are not measured that are not; the operations of the model, and the bytes of its parameters.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.first_call import cpu_seconds  # noqa: E402 - the path is known before
from benchmarks.measure import interleaved  # noqa: E402
from benchmarks.runtimes import BEGINS, RUNTIMES, Inputs, Runtime  # noqa: E402
from benchmarks.zoo import MODELS, tensors  # noqa: E402

ALLOWED = {"float32": 1e-4, "bfloat16": 0.02, "int8": 0.3}  # errors, relative to the largest value of an output
TIMES = 10  # as large as eager's an error may be, too


def measured(
    module: nn.Module, inputs: Inputs, contenders: Mapping[str, Runtime], precision: str, threads: int, rounds: int
) -> dict[str, Any]:
    runs, seconds, errors, failures = {}, {}, {}, {}
    with torch.no_grad():
        expected, operations = exact(module, inputs)
        for name, contender in contenders.items():
            print(f"{BEGINS}{name}", file=sys.stderr, flush=True)  # it may end the process
            if not contender.is_installed():
                failures[name] = "not installed"
                continue
            try:
                for each in contender.modules:
                    import_module(each)
                start = cpu_seconds()
                run = contender.build(module, inputs, threads)
                found = run()
                seconds[name] = cpu_seconds() - start
                errors[name] = largest_error(expected, found)
            except Exception as error:
                failures[name] = f"fails: {said(error)}"
                continue
            if name == "eager" or errors[name] <= max(ALLOWED[precision], TIMES * errors["eager"]):
                runs[name] = run
            else:
                failures[name] = f"wrong: {errors[name]:.1e}"
        samples = interleaved(runs, rounds, process_time if threads == 1 else perf_counter)
    return {
        "samples": {name: asdict(sample) for name, sample in samples.items()},
        "seconds": seconds,
        "errors": errors,
        "failures": failures,
        "operations": operations,
        "bytes": bytes_read(module),
    }


def said(error: BaseException) -> str:
    """The first cause of an error, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def exact(module: nn.Module, inputs: Inputs) -> tuple[list[Tensor], int]:
    """The outputs in float64, and how many operations products and convolutions take."""
    module = copy.deepcopy(module).double()
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
    # Only attention that is made of products is counted, and no kernel of torch for CPUs is.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        expected = module(**inputs)
    return tensors(expected), counter.get_total_flops()


def bytes_read(module: nn.Module) -> int:
    """Of parameters, each read once; of a table, in which a few rows are looked up, nothing."""
    layers = (layer for layer in module.modules() if not isinstance(layer, nn.Embedding))
    return sum(each.nbytes for each in {p for layer in layers for p in layer.parameters(recurse=False)})


def largest_error(expected: list[Tensor], output: object) -> float:
    """Relative to the largest value of the tensor that it is in; infinite where shapes differ or something is NaN."""
    found = tensors(output)
    if [each.shape for each in found] != [each.shape for each in expected]:
        return float("inf")
    errors = [(e - f).abs().max() / e.abs().max().clamp_min(1e-30) for e, f in zip(expected, found, strict=True)]
    return torch.stack(errors).nan_to_num(nan=float("inf")).max().item()


def main(key: str, precision: str, threads: str, rounds: str, without: str = "") -> None:
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    (model,) = (each for each in MODELS if each.key == key)
    module, inputs = model.build()
    if precision == "bfloat16":
        module = module.bfloat16()
        inputs = {name: value.bfloat16() if value.is_floating_point() else value for name, value in inputs.items()}
    contenders = {name: each for name, each in RUNTIMES[precision].items() if name not in without.split(",")}
    print(json.dumps(measured(module, inputs, contenders, precision, int(threads), int(rounds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
