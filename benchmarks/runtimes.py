"""What can run a model for inference: eager, the two compilers, ONNX Runtime and OpenVINO.

The last two are not needed: `pip install onegraph[contenders]` brings them.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn

import onegraph
from benchmarks.measure import Run

Inputs = dict[str, Tensor]
BEGINS = "contender "  # and a name: what a process that measures tells of whose turn it is


@dataclass(frozen=True, slots=True)
class Runtime:
    """A way of running a model.

    Fields:
        build: takes a model in eval mode, its inputs by name, and a number of threads; returns a function without
            arguments that returns the outputs of the model, in order.
        modules: what it imports. Without one of them it is not installed.
    """

    build: Callable[[nn.Module, Inputs, int], Run]
    modules: tuple[str, ...] = ()

    def is_installed(self) -> bool:
        return all(find_spec(name.partition(".")[0]) for name in self.modules)


def eager(module: nn.Module, inputs: Inputs, threads: int) -> Run:
    return partial(module, **inputs)


def stock(module: nn.Module, inputs: Inputs, threads: int) -> Run:
    return partial(torch.compile(module), **inputs)


def compiled(module: nn.Module, inputs: Inputs, threads: int, **options: object) -> Run:
    return partial(onegraph.compile(module, options=options), **inputs)


def onnxruntime(module: nn.Module, inputs: Inputs, threads: int, quantized: bool = False) -> Run:
    """`quantized`: products of 8-bit integers, with weights quantized before and activations as they come."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        torch.onnx.export(module, (), path, kwargs=inputs, dynamo=True, verbose=False)
        if quantized:
            quantize_dynamic(path, path := f"{folder}/quantized.onnx", weight_type=QuantType.QInt8)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {each.name: inputs[each.name].numpy() for each in session.get_inputs()}
    return lambda: [torch.from_numpy(output) for output in session.run(None, feeds)]


def openvino(module: nn.Module, inputs: Inputs, threads: int, precision: str = "f32") -> Run:
    """It reads float32 and computes in `precision`: left to itself it takes bfloat16 where the processor has it."""
    import openvino

    module = copy.deepcopy(module).float()
    inputs = {name: value.float() if value.is_floating_point() else value for name, value in inputs.items()}
    if any(isinstance(layer, nn.RNNBase) for layer in module.modules()):  # an exported program has only their steps
        model = openvino.convert_model(module, example_input=inputs)
    else:
        model = openvino.convert_model(torch.export.export(module, (), inputs))
    model.reshape({name: list(value.shape) for name, value in inputs.items()})
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,  # a core that it has taken may be busy
    }
    program = openvino.Core().compile_model(model, "CPU", settings)
    request = program.create_infer_request()
    feeds = {name: value.numpy() for name, value in inputs.items()}

    def run() -> list[Tensor]:
        outputs = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [torch.from_numpy(outputs[output]) for output in program.outputs]

    return run


ONNX = ("onnx", "onnxscript", "onnxruntime.quantization", "torch.export", "torch.onnx")
TORCH: Mapping[str, Runtime] = {
    "eager": Runtime(eager),
    "stock": Runtime(stock, ("torch._inductor.compile_fx",)),
    "onegraph": Runtime(compiled),
    "frozen": Runtime(partial(compiled, freeze_parameters=True)),
}
RUNTIMES: Mapping[str, Mapping[str, Runtime]] = {
    "float32": TORCH
    | {
        "onnxruntime": Runtime(onnxruntime, ONNX),
        "openvino": Runtime(openvino, ("openvino", "torch.export")),
    },
    "bfloat16": TORCH | {"openvino": Runtime(partial(openvino, precision="bf16"), ("openvino", "torch.export"))},
    "int8": {
        "eager": Runtime(eager),  # in float32, as the next one
        "float32": Runtime(compiled),
        "onegraph": Runtime(partial(compiled, quantize="int8-dynamic")),
        "onnxruntime": Runtime(partial(onnxruntime, quantized=True), ONNX),
    },
}
