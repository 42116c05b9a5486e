"""`python -m benchmarks.gpu_code [--capability 80,90] [--train] [--stock] [--only gpt2,bert] [--save]`

The kernels of the twelve models for GPUs, which Triton compiles here without one: how many there are, the registers of
a thread, what did not fit into them, shared memory, and the bytes that are asked for against those that must be moved.
With `--stock` also how many kernels the stock compiler makes of the same model, on the CPU. Triton must be installed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

import onegraph
from benchmarks.report import RESULTS
from benchmarks.zoo import MODELS, tensors
from onegraph.backends import native_for
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler.cuda import library_as_it_is
from onegraph.compiler.kernels import is_ordered, place_indices, stored_by
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.target import Code, Target
from onegraph.compiler.triton.blocks import Blocks, extent_of
from onegraph.compiler.triton.cubins import Cubin, compile_sources
from onegraph.compiler.triton.gpu import A100, H100, Gpu, machine_of, schedule
from onegraph.compiler.triton.sources import Sources, sources_of
from onegraph.ir.loop import Block, Extern, Kernel, Let, Load, Loop, Program, Store

GPUS = {gpu.capability: gpu for gpu in (A100, H100)}
NO_KERNELS = ("ExternKernelSchedulerNode", "NopKernelSchedulerNode")
USED = re.compile(r"(REG|STACK|SHARED|LOCAL):(\d+)")


class Compiled(BaseException):
    """All graphs of a call are compiled: nobody can run them here."""


class Stops(Executor):
    def consume(self, args: list[Any]) -> Any:
        raise Compiled


@dataclass(frozen=True)
class Graph:
    program: Program
    sources: Sources


def target_that_keeps(gpu: Gpu, made: list[Graph]) -> Target:
    """Writes kernels, and runs none."""

    def build(program: Program, cx: Context) -> Code:
        found = sources_of(program)
        made.append(Graph(program, found))
        infos = tuple(source.info for source in found.sources)
        addresses = (0,) * len(infos)
        return Code(found.functions, infos, addresses, None, True, str, {}, found.begins, grids=found.grids)

    machine = machine_of(gpu)
    return Target("cpu", machine, library_as_it_is, schedule(machine), build, Stops)


def graphs_of(module: nn.Module, inputs: dict[str, Any], gpu: Gpu, trains: bool) -> list[Graph]:
    """The graphs of a call, forward and backward."""
    made: list[Graph] = []
    onegraph.reset()
    compile_graph, cx = native_for(target_that_keeps(gpu, made)), Context(Config(cache=False))
    compiled = onegraph.compile(module.train(trains), backend=lambda graph, given: compile_graph(graph, given, cx))
    with torch.set_grad_enabled(trains):
        try:
            compiled(**inputs)
        except Compiled:
            pass
    return made


def asked(kernel: Kernel, blocks: Blocks) -> Iterator[tuple[str, int]]:
    """The elements of buffers that a kernel asks for, where lanes that want the same one ask once.

    What is read in several loops over a row that registers hold is read once.
    """
    stored, seen = stored_by(kernel), set[tuple[str, ...]]()

    def walk(block: Block, names: Mapping[str, str] | None) -> Iterator[tuple[str, int]]:
        for statement in block:
            match statement:
                case Let(value=Load(buffer, place)) | Store(buffer, place):
                    indices = place_indices(place)
                    if buffer not in stored and names is not None:
                        texts = (re.sub(r"\w+", lambda found: names.get(found[0], found[0]), str(i)) for i in indices)
                        key = (buffer, *texts)
                        if key in seen:
                            continue
                        seen.add(key)
                    symbols = [symbol for index in indices for symbol in index.symbols if symbol.extent]
                    yield buffer, extent_of(tuple(dict.fromkeys(symbols)))
                case Loop(axes, body):
                    held = names is not None and not is_ordered(statement) and extent_of(axes) <= blocks.r
                    positions = {axis.name: f"r{n}" for n, axis in enumerate(axes)}
                    yield from walk(body, {**(names or {}), **positions} if held else None)

    yield from walk(kernel.body, {})


def bytes_asked(graph: Graph) -> int:
    table, sources = graph.program.table(), graph.sources
    return sum(
        count * table[buffer].type.dtype.size
        for kernel in graph.program.kernels
        for buffer, count in asked(kernel, sources.sources[sources.functions[kernel.name]].blocks)
        if buffer in table
    )


@cache
def cuobjdump() -> str:
    import triton

    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump")


def used(cubin: Cubin) -> dict[str, int]:
    """What CUDA's tool says of the code: registers and local memory of a thread, shared memory of a block."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.code)
        file.flush()
        said = subprocess.run([cuobjdump(), "-res-usage", file.name], capture_output=True, text=True, check=True)
    return {name: int(number) for name, number in USED.findall(said.stdout)}


def stock_kernels(module: nn.Module, inputs: dict[str, Any], trains: bool) -> str:
    """How many kernels the stock compiler's scheduler has made of the operators.

    The functions that it writes for the CPU are fewer: each may have several.
    """
    from torch._inductor import config

    kinds: list[str] = []

    def count(nodes: list[Any]) -> list[Any]:
        kinds.extend(type(node).__name__ for node in nodes)
        return nodes

    torch._dynamo.reset()
    with config.patch(_post_fusion_custom_pass=count), torch.set_grad_enabled(trains):
        output = torch.compile(module.train(trains))(**inputs)
        if trains:
            sum(each.float().square().mean() for each in tensors(output) if each.requires_grad).backward()
    return str(sum(kind not in NO_KERNELS for kind in kinds)) if kinds else "-"  # it compiles no LSTM


def row(name: str, graphs: Sequence[Graph], gpu: Gpu, stock: str) -> list[str]:
    launches = sum(len(graph.program.kernels) for graph in graphs)
    calls = sum(isinstance(step, Extern) for graph in graphs for step in graph.program.steps)
    sources = {source.name: source for graph in graphs for source in graph.sources.sources}
    infos = [graph.sources.sources[n].info for graph in graphs for n in graph.sources.functions.values()]
    least = sum(info.moved for info in infos)
    facts = [used(built.cubin) for built in compile_sources(list(sources.values()), gpu)]
    registers = [each["REG"] for each in facts]
    spilled = sum(each["STACK"] + each["LOCAL"] > 0 for each in facts)  # sines keep large arguments there, as CUDA's do
    return [
        name, str(launches), stock, str(calls), str(len(facts)),
        f"{statistics.median(registers):.0f}, {max(registers)}", str(spilled),
        str(max(each["SHARED"] for each in facts)), f"{sum(map(bytes_asked, graphs)) / least:.2f}",
    ]  # fmt: skip


HEADERS = (
    "", "kernels run", "stock", "library calls", "different", "registers: median, most", "with a stack", "shared bytes",
    "bytes asked / least",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu_code", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--capability", default="80,90")
    parser.add_argument("--train", action="store_true", help="a step forward and backward, not inference")
    parser.add_argument("--stock", action="store_true", help="count the stock compiler's kernels: 20 s a model")
    parser.add_argument("--only", default="", help="models, by their keys")
    parser.add_argument("--save", action="store_true", help="write the tables to benchmarks/results/gpu_code.md")
    options = parser.parse_args()
    console = Console(width=160)
    chosen = [model for model in MODELS if not options.only or model.key in options.only.split(",")]
    counts: dict[str, str] = {}
    told: list[str] = []
    for capability in map(int, options.capability.split(",")):
        gpu = GPUS[capability]
        kind = "a step of training" if options.train else "inference"
        title = f"Kernels for GPUs of capability {capability / 10}, {kind}, batch 1"
        rows = []
        for model in chosen:
            console.print(f"{capability}: {model.name}", highlight=False)
            module, inputs = model.build()
            if options.stock and model.key not in counts:
                counts[model.key] = stock_kernels(module, inputs, options.train)
            rows.append(row(model.name, graphs_of(module, inputs, gpu, options.train), gpu, counts.get(model.key, "-")))
        table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
        for number, header in enumerate(HEADERS):
            table.add_column(header, justify="right" if number else "left")
        for each in rows:
            table.add_row(*each)
        console.print(table)
        lines = [f"| {' | '.join(cells)} |" for cells in (HEADERS, ("---", *["---:"] * (len(HEADERS) - 1)), *rows)]
        told += [f"## {title}", "", *lines, ""]
    if options.save:
        name = f"gpu_code{'_training' if options.train else ''}.md"
        (RESULTS / name).write_text("\n".join(told))


if __name__ == "__main__":
    main()
