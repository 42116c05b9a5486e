"""Names of torch's logs (`TORCH_LOGS`, `torch._logging.set_logs`), and what onegraph says under them.

A channel of events belongs to a stage, which has a logger of torch's: `dynamo`, `dynamic`, `aot` or `inductor`. It is
said there from a level on, and under the artifacts that mean the same. A test goes through the artifacts of torch.
"""

from __future__ import annotations

import logging
from types import MappingProxyType

from onegraph.base.dataclass import dataclass

CAPTURE = "torch._dynamo"
SIZES = "torch.fx.experimental.symbolic_shapes"
AUTOGRAD = "torch._functorch.aot_autograd"
COMPILER = "torch._inductor"


@dataclass(frozen=True, slots=True)
class Route:
    """The logger of the stage that says it, the level there, and the artifacts."""

    logger: str
    level: int
    artifacts: tuple[str, ...] = ()


ROUTES = MappingProxyType(
    {
        "frames": Route(CAPTURE, logging.INFO),
        "bytecode": Route(CAPTURE, logging.DEBUG, ("bytecode",)),
        "graph_code": Route(
            CAPTURE,
            logging.DEBUG,
            ("graph_code", "graph", "graph_sizes", "graph_code_verbose", "pre_grad_graphs"),
        ),
        "dynamic": Route(SIZES, logging.INFO),
        "guards": Route(CAPTURE, logging.DEBUG, ("guards", "verbose_guards")),
        "residual": Route(CAPTURE, logging.DEBUG, ("bytecode", "side_effects")),
        "graph_breaks": Route(CAPTURE, logging.INFO, ("graph_breaks",)),
        "skips": Route(CAPTURE, logging.INFO, ("graph_breaks",)),
        "recompiles": Route(CAPTURE, logging.INFO, ("recompiles", "recompiles_verbose")),
        "aten": Route(AUTOGRAD, logging.DEBUG, ("aot_graphs", "aot_graphs_effects", "post_grad_graphs")),
        "gradients": Route(AUTOGRAD, logging.INFO, ("aot_joint_graph",)),
        "loops": Route(COMPILER, logging.DEBUG, ("ir_pre_fusion",)),
        "fusion": Route(COMPILER, logging.DEBUG, ("ir_post_fusion", "fusion", "schedule")),
        "communication": Route(COMPILER, logging.DEBUG, ("overlap", "overlap_scheduling")),
        "quantization": Route(COMPILER, logging.INFO),
        "cuda_graphs": Route(COMPILER, logging.INFO, ("cudagraphs",)),
        "bounds": Route(COMPILER, logging.DEBUG),
        "memory": Route(COMPILER, logging.INFO),
        "output_code": Route(COMPILER, logging.DEBUG, ("output_code", "kernel_code", "caching")),
        "fallbacks": Route(COMPILER, logging.INFO, ("perf_hints",)),
        "cache": Route(COMPILER, logging.DEBUG, ("caching",)),
        "passes": Route(COMPILER, logging.DEBUG),
        "time": Route(COMPILER, logging.DEBUG, ("inductor_metrics",)),
    }
)

_OWN = "it is of the code that torch's compiler is made of"
_STATIC = "parameters, and inputs that are written to, are used where they lie"
_STEPS = "instructions are not told one by one: onegraph.comptime shows what is known at a line"
_AUTOTUNING = "library calls are chosen by measuring them, and kernels have nothing to tune"
_FUSION = "what is fused is said under ir_post_fusion"
_DISTRIBUTED = "collectives stay what they are, in the order of the program"
_BACKWARD = "the backward pass is compiled with its forward pass: aot_graphs"

#: Artifacts under which onegraph has nothing to say, and why.
SILENT = MappingProxyType(
    {
        "cudagraph_static_inputs": _STATIC,
        "trace_source": _STEPS,
        "trace_call": _STEPS,
        "trace_bytecode": _STEPS,
        "compiled_autograd": _BACKWARD,
        "compiled_autograd_verbose": _BACKWARD,
        "ddp_graphs": _DISTRIBUTED,
        "node_runtime_estimation": _DISTRIBUTED,
        "autotuning": _AUTOTUNING,
        "autotuning_inputs": _AUTOTUNING,
        "benchmarking": _AUTOTUNING,
        "incremental": _AUTOTUNING,
        "compute_dependencies": _FUSION,
        "loop_ordering": _FUSION,
        "loop_tiling": _FUSION,
        "auto_chunker": _FUSION,
        "sym_node": "symbolic sizes are said under dynamic",
        "trace_shape_events": "symbolic sizes are said under dynamic",
        "partitioned_scatter": _FUSION,
        "native_dsl_compile": "kernels are compiled by LLVM: output_code",
        "not_implemented": _OWN,
        "annotation": _OWN,
        "graph_region_expansion": _OWN,
        "hierarchical_compile": _OWN,
        "onnx_diagnostics": "it is of the export to ONNX",
        "custom_format_test_artifact": "it is for the tests of torch's logging",
    }
)
