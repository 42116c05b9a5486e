"""`python sequence.py CONTENDER CASE`, in a process of its own: call with one size after the other, and print the cost.

Printed are CPU-seconds of the whole sequence, first calls included, how many graphs were compiled, and how many times
longer a call takes then than one that was compiled for its size alone (the worst of three sizes).
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import thread_time

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.first_call import cpu_seconds  # noqa: E402 - the path is known before

ROUNDS, SECONDS = 9, 0.3  # as many at least, and for so long: what else the machine does changes short calls by a fifth
Case = tuple[nn.Module, Sequence[dict[str, Tensor]], bool]


def lengths(count: int) -> list[int]:
    return random.Random(0).sample(range(8, 129), count)


def bert() -> Case:
    """BERT-base, 30 lengths"""
    import transformers

    model = transformers.BertModel(transformers.BertConfig()).eval()
    return model, [{"input_ids": torch.randint(30_000, (1, n))} for n in lengths(30)], False


def resnet() -> Case:
    """ResNet-50, 10 sizes"""
    import transformers

    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000)).eval()
    sizes = (224, 192, 256, 160, 176, 208, 240, 128, 288, 320)
    return model, [{"pixel_values": torch.randn(1, 3, n, n)} for n in sizes], False


def lstm() -> Case:
    """LSTM, 30 lengths"""
    from benchmarks.learners import Characters

    model = Characters().eval()
    return model, [{"text": torch.randint(96, (4, n + 1))} for n in lengths(30)], False


def batches() -> Case:
    """training, short last batches"""
    from benchmarks.learners import Classifier

    sizes = ([64] * 9 + [13]) * 3
    return Classifier(), [{"x": torch.randn(n, 512), "labels": torch.randint(10, (n,))} for n in sizes], True


CASES: dict[str, Callable[[], Case]] = {case.__name__: case for case in (bert, resnet, lstm, batches)}


def main(contender: str, key: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, inputs, trained = CASES[key]()
    graphs = [0]

    def calling(function: Callable[..., Tensor]) -> Callable[[dict[str, Tensor]], None]:
        def call(given: dict[str, Tensor]) -> None:
            result = function(**given)
            if trained:
                result.backward()
                model.zero_grad()

        return call

    with nullcontext() if trained else torch.no_grad():
        calling(model)(inputs[0])  # so that eager's own first-call costs are paid by none of the contenders
        compile = {"eager": lambda target, **_: target, "stock": torch.compile, "onegraph": counted(graphs)}[contender]
        compiled = calling(compile(model))
        start = cpu_seconds()
        for given in inputs:
            compiled(given)
        cost = cpu_seconds() - start
        stock = contender == "stock"
        compiled_graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"] if stock else graphs[0]
        longer = [against_static(compiled, calling(compile(model, dynamic=False)), inputs[n]) for n in (0, 4, -1)]
    print(json.dumps({"cpu": cost, "graphs": compiled_graphs, "against_static": max(longer)}), flush=True)


def counted(graphs: list[int]) -> Callable[..., nn.Module]:
    """onegraph's compiler; it counts the graphs that it gets."""
    import onegraph
    from onegraph.base.events import GraphCaptured
    from onegraph.compile import EVENTS

    EVENTS.subscribe(lambda event: graphs.__setitem__(0, graphs[0] + isinstance(event, GraphCaptured)))
    return onegraph.compile


def against_static(dynamic: Callable[..., None], static: Callable[..., None], given: dict[str, Tensor]) -> float:
    """How many times longer the first takes."""
    times: dict[Callable[..., None], list[float]] = {dynamic: [], static: []}
    for _ in range(2):
        dynamic(given)
        static(given)
    while len(times[static]) < ROUNDS or sum(times[static]) < SECONDS:
        for run, taken in times.items():
            start = thread_time()
            run(given)
            taken.append(thread_time() - start)
    return statistics.median(times[dynamic]) / statistics.median(times[static])


if __name__ == "__main__":
    main(*sys.argv[1:])
