"""Products of matrices: what compiled code takes for 60 of them, beside torch's own call and oneDNN's, in turn.

Each is a function as a program has it (a linear layer, `x @ weight`, the products of attention, of gradients). torch's
call of float32 is MKL's. oneDNN is called with weights that were packed before, which nothing checks. In 8-bit integers
those are the engines of torch's dynamically quantized layers. Where there are few rows, many weights are used in turn:
in a model no cache holds them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor, nn

import onegraph
from benchmarks.contenders import reset
from benchmarks.inference import fastest_product, torch_threads
from benchmarks.measure import Result, Run, Sample, Settings, interleaved
from onegraph.tools.html_report.data import Limits
from onegraph.tools.html_report.limits import best
from onegraph.tools.roofline import limits

ROUNDS = 25
LEAST = 0.002  # seconds of calls in a row: short turns, and many, on a machine that does other work, too
QUICK = 7  # every so many of the shapes
FEW = 16  # rows, up to which weights come from memory
COLD = 64 << 20  # bytes of weights that are used in turn then
MOST = 24  # weights
EPILOGUE: tuple[str, list[Any], str] = ("none", [], "")
mkldnn = torch.ops.mkldnn


@dataclass(frozen=True, slots=True)
class Shape:
    """A product of `rows x inner` and `inner x columns`; of `batch` of them at a time.

    Fields:
        form: linear: with a bias, and a constant weight whose rows are the columns of the result. tall: with a constant
            weight as it is multiplied. mm: of two arguments. across: of `x.t()`. bmm, baddbmm: batched. scores: of
            `y.transpose(1, 2)`, batched.
    """

    form: str
    rows: int
    inner: int
    columns: int
    batch: int = 1

    @property
    def name(self) -> str:
        sizes = f"{self.rows} x {self.inner} x {self.columns}"
        return f"{self.form} {f'{self.batch} of ' if self.batch > 1 else ''}{sizes}"

    @property
    def is_constant(self) -> bool:
        """Whether one factor is a parameter."""
        return self.form in ("linear", "tall")

    @property
    def count(self) -> int:
        """How many weights are used in turn."""
        if self.rows > FEW or not self.is_constant:
            return 1
        return min(MOST, math.ceil(COLD / (4 * self.inner * self.columns)))

    @property
    def operations(self) -> int:
        return 2 * self.count * self.batch * self.rows * self.inner * self.columns

    def bytes_read(self, size: int) -> int:
        """Of elements of so many bytes: of constant weights, which come from memory where there are few rows."""
        return self.count * self.inner * self.columns * size if self.count > 1 else 0


LINEAR = """
1x768x768 1x768x3072 1x4096x4096 2x768x3072 4x768x3072 8x768x3072 12x768x3072 16x768x3072 16x3072x768 24x1024x4096
32x768x768 64x1024x1024 96x512x2048 128x768x768 128x768x2304 128x768x3072 128x3072x768 128x768x50257 197x768x768
197x3072x768 256x512x2048 512x512x512 512x768x3072 512x4096x1024 1024x1024x1024 1500x384x1536 2048x2048x2048
4096x320x320 4096x1024x1024
5x1000x1000 7x100x300 33x129x65 100x333x777 127x769x1001 128x768x30522 511x513x515 1000x50x10
"""
TALL = "1x768x3072 8x768x768 16x1024x4096 128x768x2304 128x3072x768 512x768x768 1024x512x1536 300x200x100"
MM = "8x768x768 64x64x64 128x768x3072 1024x1024x1024"
ACROSS = "768x128x768 768x512x3072 77x200x333"
BATCHED = {
    "scores": "12x128x64x128 48x197x64x197",
    "bmm": "12x128x128x64 48x197x197x64 32x1x64x512 8x512x512x512",
    "baddbmm": "12x128x64x128 4x256x256x256",
}


def shapes() -> Iterator[Shape]:
    for form, text in {"linear": LINEAR, "tall": TALL, "mm": MM, "across": ACROSS}.items():
        for sizes in text.split():
            yield Shape(form, *map(int, sizes.split("x")))
    for form, text in BATCHED.items():
        for sizes in text.split():
            batch, *rest = map(int, sizes.split("x"))
            yield Shape(form, *rest, batch=batch)


class Tall(nn.Module):
    """A weight as it is multiplied."""

    def __init__(self, inner: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, columns) * inner**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class Layers(nn.ModuleList):
    """Layers of one shape, of the same input."""

    def forward(self, x: Tensor) -> list[Tensor]:
        return [layer(x) for layer in self]


def layers_of(shape: Shape) -> list[nn.Module]:
    made = nn.Linear if shape.form == "linear" else Tall
    return [made(shape.inner, shape.columns) for _ in range(shape.count)]


def together(layers: list[nn.Module]) -> nn.Module:
    return layers[0] if len(layers) == 1 else Layers(layers)


FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "mm": lambda x, y: x @ y,
    "across": lambda x, y: x.t() @ y,
    "scores": lambda x, y: x @ y.transpose(1, 2),
    "bmm": lambda x, y: torch.bmm(x, y),
    "baddbmm": lambda x, y, added: torch.baddbmm(added, x, y),
}


def arguments(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """What a function is called with."""
    r = partial(torch.randn, dtype=dtype)
    rows, inner, columns, batch = shape.rows, shape.inner, shape.columns, shape.batch
    match shape.form:
        case "linear" | "tall":
            return (r(rows, inner),)
        case "mm":
            return r(rows, inner), r(inner, columns)
        case "across":
            return r(inner, rows), r(inner, columns)
        case "scores":
            return r(batch, rows, inner), r(batch, columns, inner)
        case "bmm":
            return r(batch, rows, inner), r(batch, inner, columns)
    return r(batch, rows, inner), r(batch, inner, columns), r(batch, rows, columns)


def contenders(shape: Shape, dtype: torch.dtype) -> Mapping[str, Run]:
    if dtype is torch.int8:
        return quantized(shape)
    args = arguments(shape, dtype)
    if shape.is_constant:
        layers = [layer.to(dtype) for layer in layers_of(shape)]
        target: Callable[..., object] = together(layers)
        pairs = [
            (mkldnn._reorder_linear_weight(columns_of(layer), shape.rows), getattr(layer, "bias", None))
            for layer in layers
        ]

        def by_onednn() -> object:
            return [mkldnn._linear_pointwise(args[0], w, b, *EPILOGUE) for w, b in pairs]
    else:
        target = FUNCTIONS[shape.form]
        by_onednn = by_onednn_of_arguments(shape, args)
    return {"eager": partial(target, *args), "onednn": by_onednn, **compiled(target, *args)}


def compiled(target: Callable[..., object], *args: Tensor, **options: object) -> Mapping[str, Run]:
    """By onegraph; where a parameter stays constant, also with that promised."""
    made = {"onegraph": options, "frozen": options | {"freeze_parameters": True}}
    if not isinstance(target, nn.Module):
        del made["frozen"]
    return {name: partial(onegraph.compile(target, options=each), *args) for name, each in made.items()}


def columns_of(layer: nn.Module) -> Tensor:
    """The weight of a layer, with a row for each column of the result."""
    weight = layer.weight.detach()
    return weight if isinstance(layer, nn.Linear) else weight.t()


def by_onednn_of_arguments(shape: Shape, args: tuple[Tensor, ...]) -> Run:
    """oneDNN has no batched product that torch would call in float32: one call for each of them."""
    x, y = args[:2]
    match shape.form:
        case "mm":
            return lambda: mkldnn._linear_pointwise(x, y.t(), None, *EPILOGUE)
        case "across":
            return lambda: mkldnn._linear_pointwise(x.t(), y.t(), None, *EPILOGUE)
        case "scores":
            return lambda: [mkldnn._linear_pointwise(a, b, None, *EPILOGUE) for a, b in zip(x, y, strict=True)]
        case "bmm":
            return lambda: [mkldnn._linear_pointwise(a, b.t(), None, *EPILOGUE) for a, b in zip(x, y, strict=True)]
    added = args[2]
    return lambda: [
        mkldnn._linear_pointwise(a, b.t(), None, *EPILOGUE) + c for a, b, c in zip(x, y, added, strict=True)
    ]


def quantized(shape: Shape) -> Mapping[str, Run]:
    """Linear layers of float32 whose products are of integers, scaled as the activations come."""
    layers, (x,) = layers_of(shape), arguments(shape, torch.float32)
    target = together(layers)

    def by_engine(engine: str) -> Run:
        torch.backends.quantized.engine = engine
        made = []
        for layer in layers:
            columns = columns_of(layer)
            scales = columns.abs().amax(1) / 127
            with warnings.catch_warnings(action="ignore", category=UserWarning):  # that it will be gone some day
                codes = torch.quantize_per_channel(columns, scales, torch.zeros(len(scales)).long(), 0, torch.qint8)
            made.append(torch.ops.quantized.linear_prepack(codes, getattr(layer, "bias", None)))
        return lambda: [torch.ops.quantized.linear_dynamic(x, weight) for weight in made]

    libraries = {"eager": by_engine("x86"), "onednn": by_engine("onednn")}
    return {**libraries, **compiled(target, x, quantize="int8-dynamic")}


@dataclass(frozen=True, slots=True)
class Suite:
    """The element type, and whether one thread runs or as many as torch uses."""

    dtype: torch.dtype
    one_thread: bool = True

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}, {'one thread' if self.one_thread else 'all threads'}"

    @property
    def shapes(self) -> list[Shape]:
        return [shape for shape in shapes() if self.dtype is not torch.int8 or shape.is_constant]


SUITES: Mapping[str, Suite] = {
    f"products{kind}{'' if one else '_threads'}": Suite(dtype, one)
    for kind, dtype in {"": torch.float32, "_bf16": torch.bfloat16, "_int8": torch.int8}.items()
    for one in (True, False)
}
COLUMNS = ("eager", "onednn", "onegraph", "frozen", "limit")


def run(name: str, settings: Settings) -> Iterator[Result]:
    suite = SUITES[name]
    torch.manual_seed(0)
    with torch_threads(1 if suite.one_thread else torch.get_num_threads()), torch.no_grad():
        reached, clock = machine(suite.dtype), process_time if suite.one_thread else perf_counter
        wanted = [shape for shape in suite.shapes if settings.wants(shape.form)]
        for shape in wanted[::QUICK] if settings.quick else wanted:
            samples = interleaved(contenders(shape, suite.dtype), settings.rounds(ROUNDS), clock, LEAST)
            moved = shape.bytes_read(suite.dtype.itemsize)
            least = max(shape.operations / reached.arithmetic, moved / reached.bandwidth)
            samples["limit"] = Sample(least, least, least)
            yield Result(name, shape.name, "GFLOP/s", samples, operations=shape.operations)
            reset()


def machine(dtype: torch.dtype) -> Limits:
    """What this machine reaches in an element type."""
    found = limits()
    if dtype is torch.float32:
        return found
    return Limits(found.bandwidth, fastest_product(dtype) if dtype is torch.bfloat16 else fastest_of_integers())


def fastest_of_integers() -> float:
    """Operations in a second of torch's fastest product of 8-bit integers."""
    squares = [torch.ones(size, size, dtype=torch.int8) for size in (512, 1024, 2048)]
    return max(2 * len(square) ** 3 / best(lambda square=square: torch._int_mm(square, square)) for square in squares)
