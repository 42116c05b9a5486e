"""All process-wide state that PyTorch and Python have around a call, and what becomes of it in compiled code.

One row for each: a page of the documentation is written from them, and tests hold each row to what it says.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from onegraph.base.dataclass import dataclass
from onegraph.torchlib import private
from onegraph.torchlib.private import DeviceContext


class Treatment(enum.Enum):
    """What becomes of a state in compiled code."""

    COMPARED = "guarded"  #: compared before each call
    ASKED = "guarded where asked"  #: compared in code that has asked for it while it was traced
    NODE = "a node"  #: changed by the graph, or behind it, where the program changes it
    EAGER = "runs eagerly"  #: while it is there, the whole call runs as it is written
    IRRELEVANT = "irrelevant"  #: to what compiled code computes, or read by what computes it at each call


@dataclass(frozen=True, slots=True)
class State:
    """A state of the process or the thread, as its users know it, and how it is treated."""

    name: str
    setters: tuple[str, ...]
    treatment: Treatment
    why: str
    #: Of a state that is compared: its name in `_C.GlobalState`.
    compared: tuple[str, ...] = ()
    #: Of a state in which calls run eagerly: whether it is there.
    is_there: Callable[[], bool] | None = None


def has_unknown_function_modes() -> bool:
    return any(type(mode) is not DeviceContext for mode in private.function_mode_stack())


def has_dispatch_modes() -> bool:
    return private.count_dispatch_modes() > 0


def has_forward_level() -> bool:
    return private.forward_level() >= 0


def has_transforms() -> bool:
    return private.transform_level() is not None


COMPARED, ASKED, NODE, EAGER, IRRELEVANT = Treatment

STATES: tuple[State, ...] = (
    # ---- the whole call runs as it is written ----
    State(
        "function modes of the program",
        ("torch.overrides.TorchFunctionMode",),
        EAGER,
        "they see, and may change, each call of a torch function",
        compared=("function_modes",),
        is_there=has_unknown_function_modes,
    ),
    State(
        "no torch functions",
        ("torch._C.DisableTorchFunction",),
        EAGER,
        "nothing sees the functions that are called, and so tracing does not",
        is_there=private.is_torch_function_disabled,
    ),
    State(
        "dispatch modes",
        ("torch.utils._python_dispatch.TorchDispatchMode", "torch.utils.flop_counter.FlopCounterMode", "make_fx"),
        EAGER,
        "they see, and may change, each operator that runs",
        compared=("dispatch_modes",),
        is_there=has_dispatch_modes,
    ),
    State(
        "dispatch in part",
        ("torch._C._DisableTorchDispatch", "torch._C._ExcludeDispatchKeyGuard"),
        EAGER,
        "nothing sees the operators that run, or writes are not counted",
        is_there=private.is_dispatch_partial,
    ),
    State(
        "operators in the place of others",
        ("__torch_dispatch__",),
        EAGER,
        "autograd has done its part, and does not look at what a class computes there",
        is_there=private.is_below_autograd,
    ),
    State(
        "tracing by TorchScript",
        ("torch.jit.trace",),
        EAGER,
        "it records the operators that run",
        compared=("tracing",),
        is_there=private.is_jit_tracing,
    ),
    State(
        "symbolic tracing by FX",
        ("torch.fx.symbolic_trace",),
        EAGER,
        "it runs the program on stand-ins for tensors, which fit no guard",
        is_there=private.is_traced_by_fx,
    ),
    State(
        "function transforms",
        ("torch.func.vmap", "torch.func.grad", "torch.func.jvp", "torch.func.functionalize"),
        EAGER,
        "tensors are levels of others; a transform that compiled code itself calls is a part of its graph",
        compared=("functorch_level",),
        is_there=has_transforms,
    ),
    State(
        "forward-mode differentiation",
        ("torch.autograd.forward_ad.dual_level",),
        EAGER,
        "operators carry tangents along",
        compared=("forward_level",),
        is_there=has_forward_level,
    ),
    State(
        "trace functions",
        ("sys.settrace",),
        EAGER,
        "they see each line that runs; compiled code is used again when they are gone",
    ),
    # ---- compared before each call ----
    State("grad mode", ("torch.no_grad", "torch.set_grad_enabled"), COMPARED, "", compared=("grad_mode",)),
    State("inference mode", ("torch.inference_mode",), COMPARED, "", compared=("inference_mode",)),
    State("default dtype", ("torch.set_default_dtype",), COMPARED, "", compared=("default_dtype",)),
    State(
        "torch functions of subclasses",
        ("torch._C.DisableTorchFunctionSubclass",),
        COMPARED,
        "whether tensors of a subclass are asked",
        compared=("torch_functions",),
    ),
    State(
        "default device",
        ("torch.set_default_device", "with torch.device"),
        COMPARED,
        "by the devices, not by the modes that hold them",
        compared=("default_device",),
    ),
    State(
        "autocast",
        ("torch.autocast",),
        COMPARED,
        "for each kind of device, whether it is on and its type",
        compared=("autocast_cpu", "autocast_cpu_dtype", "autocast_cuda", "autocast_cuda_dtype"),
    ),
    State(
        "deterministic algorithms",
        ("torch.use_deterministic_algorithms", "torch.utils.deterministic.fill_uninitialized_memory"),
        COMPARED,
        "operators that mind it are left to PyTorch: they raise, warn, and fill new memory as in eager mode",
        compared=("deterministic", "deterministic_warn_only", "deterministic_fill"),
    ),
    # ---- compared where compiled code depends on it ----
    State(
        "hooks for all modules",
        ("torch.nn.modules.module.register_module_forward_hook", "torch.utils.module_tracker.ModuleTracker"),
        ASKED,
        "in graphs that call modules: that there are none, or which; those for what modules are given likewise",
    ),
    State(
        "hooks for all optimizers",
        ("torch.optim.optimizer.register_optimizer_step_pre_hook",),
        ASKED,
        "in graphs that step an optimizer: that there are none, or which",
    ),
    State(
        "cache of parametrizations",
        ("torch.nn.utils.parametrize.cached",),
        ASKED,
        "as is every global that functions of its own library bind anew",
    ),
    State(
        "settings that a program asks for",
        ("torch.backends", "torch.get_float32_matmul_precision", "torch.get_num_threads"),
        ASKED,
        "the answer is guarded",
    ),
    State(
        "current device",
        ("torch.cuda.set_device", "with torch.cuda.device"),
        ASKED,
        "by code that asks for it, or names a kind of device without a number",
    ),
    State("environment", ("os.environ",), ASKED, "guarded as any dict is"),
    # ---- a node of the graph, or done by the code around it ----
    State(
        "settings that a program changes",
        (
            "torch.set_default_dtype",
            "torch.set_default_device",
            "torch.use_deterministic_algorithms",
            "torch.set_float32_matmul_precision",
            "torch.set_autocast_enabled",
            "torch.backends",
        ),
        NODE,
        "changed in the graph, and left behind it as the program leaves them; if operators read them when they run, the"
        " graph runs operator by operator",
    ),
    State(
        "inference mode, dual numbers within the function",
        ("torch.inference_mode", "torch.autograd.forward_ad.dual_level"),
        NODE,
        "entered and left by the graph",
    ),
    State(
        "generators of random numbers",
        ("random", "numpy.random"),
        NODE,
        "drawn from by the code around the graph, in each call and in the order of the program",
    ),
    State(
        "kernels of attention",
        ("torch.nn.attention.sdpa_kernel",),
        NODE,
        "chosen by the program in the graph, and around a call read by the operator",
    ),
    State(
        "filters of warnings",
        ("warnings.simplefilter", "warnings.catch_warnings"),
        NODE,
        "the program's warnings are given in each call, through the filters of that call",
    ),
    State(
        "standard output",
        ("contextlib.redirect_stdout", "sys.stdout"),
        NODE,
        "what is printed goes where it goes at that call",
    ),
    # ---- irrelevant ----
    State(
        "hooks for saved tensors",
        ("torch.autograd.graph.saved_tensors_hooks", "torch.utils.checkpoint.checkpoint"),
        IRRELEVANT,
        "hooks of the program see what each operator saves, since its graphs run so; those of torch, what graphs save",
    ),
    State(
        "anomaly mode",
        ("torch.autograd.set_detect_anomaly",),
        IRRELEVANT,
        "in it, graphs that record gradients run operator by operator, and so do their backward passes",
    ),
    State(
        "precision of products",
        ("torch.set_float32_matmul_precision", "torch.backends.cudnn", "torch.backends.mkldnn"),
        IRRELEVANT,
        "the libraries read it at each call; kernels that are made here compute no less precisely",
    ),
    State(
        "current stream",
        ("torch.cuda.set_stream", "with torch.cuda.stream"),
        IRRELEVANT,
        "graphs run on the stream that is the current one at their call",
    ),
    State(
        "flushing of denormal numbers",
        ("torch.set_flush_denormal",),
        IRRELEVANT,
        "a state of the processor, which kernels run in, with one thread while it is on; compilation does not",
    ),
    State(
        "number of threads", ("torch.set_num_threads",), IRRELEVANT, "read at each call; results do not depend on it"
    ),
    State(
        "profilers",
        ("torch.profiler.profile", "torch.autograd.profiler.profile", "sys.setprofile"),
        IRRELEVANT,
        "they measure what runs: graphs and kernels in place of functions and operators",
    ),
    State(
        "cache of autocast",
        ("torch.set_autocast_cache_enabled",),
        IRRELEVANT,
        "it changes how often a weight is cast, not to what",
    ),
    State(
        "print options",
        ("torch.set_printoptions",),
        IRRELEVANT,
        "the texts of tensors are made in eager code",
    ),
    State(
        "thread-local objects",
        ("threading.local",),
        IRRELEVANT,
        "reads are guarded, and writes are made, for the thread that runs; a subclass breaks the graph",
    ),
    State(
        "context variables, locale",
        ("contextvars.ContextVar", "locale.setlocale"),
        IRRELEVANT,
        "reading them, and formatting by the locale, breaks the graph or is read anew in each call",
    ),
    State(
        "limit of recursion",
        ("sys.setrecursionlimit",),
        IRRELEVANT,
        "close to it the program runs as it is written, and meets it where it would",
    ),
)


def eager_state() -> State | None:
    """The state because of which a call that starts now runs as it is written, if there is one."""
    for state in STATES:
        if state.is_there is not None and state.is_there():
            return state
    return None
