"""All that the package uses of torch that is private to torch: the one file to look at for a new release of torch.

What everything needs is imported as it is: without it the import of this file fails, `onegraph.support` says so in one
sentence, and calls run eagerly. What a single feature needs is `optional`: without it the feature is off.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import _C
from torch._C import DisableTorchFunction, DispatchKey, DispatchKeySet, ScriptFunction, ScriptMethod, TensorBase
from torch._C import _DisableTorchDispatch as DisableTorchDispatch
from torch._decomp import decomposition_table, meta_table
from torch._functorch import predispatch as _predispatch
from torch._functorch import pyfunctorch
from torch._library import fake_impl
from torch._library import utils as library_utils
from torch._library.simple_registry import singleton as operator_registry
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import _DISPATCH_HANDLE_DIRECTLY as HANDLED_DIRECTLY
from torch._subclasses.fake_tensor import (
    _DISPATCH_META_HANDLERS,
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    run_fallback_kernel,
    should_allow_numbers_as_tensors,
)
from torch.amp import autocast_mode
from torch.autograd import forward_ad, grad_mode
from torch.fx import _symbolic_trace
from torch.nn.modules import module as module_internals
from torch.overrides import _get_current_function_mode_stack as function_mode_stack
from torch.utils import _device, _python_dispatch
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as dispatch_mode_stack
from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode
from torch.utils._pytree import (
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_unflatten,
    treespec_dumps,
    treespec_loads,
)

__all__ = [
    "HANDLED_DIRECTLY", "META_HANDLERS", "DataDependentOutputException", "DeviceContext", "DisableTorchDispatch",
    "DisableTorchFunction", "DispatchKey", "DispatchKeySet", "DynamicOutputShapeException", "FakeTensor",
    "FakeTensorConverter", "FakeTensorMode", "HigherOrderOperator", "OpOverload", "OpOverloadPacket",
    "ScriptFunction", "ScriptMethod", "TensorBase", "TorchDispatchMode", "UnsupportedFakeTensorException",
    "UnsupportedOperatorException", "decomposition_table", "disable_current_modes", "dispatch_mode_stack",
    "fake_impl", "fake_impls", "function_mode_stack", "meta_table", "operator_registry", "pop_dispatch_mode",
    "run_fallback_kernel", "should_allow_numbers_as_tensors", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_map", "tree_unflatten", "treespec_dumps", "treespec_loads",
]  # fmt: skip

LOGGER = logging.getLogger("onegraph")


def optional(path: str, without: str, instead: Any = None) -> Any:
    """What torch has at a path. If it has nothing there, a log line says what is done `without`, and `instead` is used.

    By default, that is a function of its own, which nobody calls: what is known of it in a table is never asked for.
    """
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        LOGGER.warning("torch %s has no %s: %s", torch.__version__, path, without)
        return absent(path) if instead is None else instead


class Feature(SimpleNamespace):
    """What torch has at several paths, of which none is of use without the others: `is_there` says whether all are."""

    is_there: bool


def feature(without: str, **paths: str) -> Feature:
    missing: Any = object()
    found = {name: optional(path, without, missing) for name, path in paths.items()}
    if missing not in found.values():
        return Feature(is_there=True, **found)
    return Feature(is_there=False, **{name: absent(path) for name, path in paths.items()})


def absent(path: str) -> Callable[..., Any]:
    def missing(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"torch {torch.__version__} has no {path}")

    missing.__name__ = path.rpartition(".")[2]
    return missing


#: All of torch's native functions.
NATIVE = _C
#: Where functions are found that say of themselves another module, or none.
HOMES_OF_FUNCTIONS = """builtins types operator _operator math functools itertools torch torch._C torch._VF torch.Tensor
    torch._C._VariableFunctions torch._C.TensorBase torch._C._nn torch._C._linalg torch._C._special torch._C._fft
    torch._C._autograd torch._C._nested torch._C._sparse torch.nn.functional torch.functional""".split()
foreach_copy_ = torch._foreach_copy_

# ---- dispatch and modes ----------------------------------------------------------------------------------------------

AutoDispatchBelowADInplaceOrView = _C._AutoDispatchBelowADInplaceOrView
AutoDispatchBelowAutograd = _C._AutoDispatchBelowAutograd
PreserveDispatchKeyGuard = _C._PreserveDispatchKeyGuard
#: What is asked of a fake tensor itself, by operator: each function takes the arguments of the call in a tuple.
META_HANDLERS: Mapping[Any, Callable[[Any], Any]] = _DISPATCH_META_HANDLERS
DisableTorchFunctionSubclass: Any = _C.DisableTorchFunctionSubclass
FAKE_MODE_KEY = _C._TorchDispatchModeKey.FAKE
count_dispatch_modes = _C._len_torch_dispatch_stack
count_function_modes = _C._len_torch_function_stack
dispatch_keys = _C._dispatch_keys
excluded_keys = _C._dispatch_tls_local_exclude_set
function_mode_at = _C._get_function_stack_at
get_dispatch_mode = _C._get_dispatch_mode
get_torch_function_state = _C._get_torch_function_state  # type: ignore[attr-defined]
has_function_modes = _C._is_torch_function_mode_enabled
has_kernel_for = _C._dispatch_has_kernel_for_dispatch_key
has_torch_function = _C._has_torch_function
has_torch_function_unary = _C._has_torch_function_unary
has_torch_function_variadic = _C._has_torch_function_variadic
is_jit_tracing = _C._is_tracing


def is_below_autograd() -> bool:
    """Whether operators that run now are called by another one, of which autograd has done its part.

    In inference mode it has none.
    """
    excluded = _C._dispatch_tls_is_dispatch_key_excluded(DispatchKey.AutogradFunctionality)
    return excluded and not torch.is_inference_mode_enabled()


def is_dispatch_partial() -> bool:
    """Whether operators ask no Python, or writes are not counted."""
    return any(map(_C._dispatch_tls_is_dispatch_key_excluded, (DispatchKey.Python, DispatchKey.ADInplaceOrView)))


is_torch_function_disabled = _C._is_torch_function_all_disabled
is_torch_function_enabled = _C._is_torch_function_enabled
#: While it is entered, composite operators that torch has in Python, too, run there. None: native ones take symbols.
python_composites = _C._EnablePythonDispatcher if torch.__version__ < (2, 12) else None  # type: ignore[operator]
parse_dispatch_key = _C._parse_dispatch_key
pop_function_mode = _C._pop_torch_function_stack
push_function_mode = _C._push_on_torch_function_stack
set_meta_included = _C._set_meta_in_tls_dispatch_include
set_torch_function_state = _C._set_torch_function_state  # type: ignore[attr-defined]

# ---- tensors ---------------------------------------------------------------------------------------------------------

#: Of torch 2.12 and later: before it, fakes of any device are normalized by their constructor alone.
normalized_device: Callable[[torch.device], torch.device] = getattr(FakeTensor, "_normalize_fake_device", torch.device)
#: Before torch 2.13, dimensions may have names.
has_names: Callable[[torch.Tensor], bool] = getattr(torch.Tensor, "has_names", lambda tensor: False)
is_alias_of = _C._is_alias_of  # type: ignore[attr-defined]
make_subclass = torch.Tensor._make_subclass
is_functional_tensor = torch._is_functional_tensor


def nested_int_node() -> Any:
    """The class of a ragged size's node, imported where a program has nested tensors."""
    return pkgutil.resolve_name("torch.nested._internal.nested_int.NestedIntNode")


set_conj = _C._set_conj
set_neg = _C._set_neg
set_throw_on_mutable_data_ptr = _C._set_throw_on_mutable_data_ptr

# ---- autograd --------------------------------------------------------------------------------------------------------

CreationMeta = _C._autograd.CreationMeta
current_node = _C._current_autograd_node
get_creation_meta = _C._autograd._get_creation_meta
increment_version = _C._increment_version
pop_saved_tensors_hooks = _C._autograd._pop_saved_tensors_default_hooks
push_saved_tensors_hooks = _C._autograd._push_saved_tensors_default_hooks
register_hook_dict = _C._FunctionBase._register_hook_dict
set_grad_enabled = _C._set_grad_enabled
set_default_dtype = _C._set_default_dtype
set_deterministic = _C._set_deterministic_algorithms
get_matmul_precision = _C._get_float32_matmul_precision
set_version_counter = _C._autograd._unsafe_set_version_counter
top_saved_tensors_hooks = _C._autograd._top_saved_tensors_default_hooks

# ---- autocast, modules, function transforms --------------------------------------------------------------------------

enter_autocast = autocast_mode._enter_autocast
enter_inference: Callable[[bool], Any] = grad_mode._enter_inference_mode
exit_inference: Callable[[Any], None] = grad_mode._exit_inference_mode
exit_autocast = autocast_mode._exit_autocast
UnmanagedAutocast = getattr(autocast_mode, "_UnmanagedAutocast", autocast_mode.autocast)  # torch 2.12 and later
call_impl = torch.nn.Module._call_impl
is_functorch_wrapped_tensor = _C._functorch.is_functorch_wrapped_tensor
_is_batched, _unwrapped = _C._functorch.is_batchedtensor, _C._functorch.get_unwrapped
is_batch_of_gradients = _C._functorch.is_legacy_batchedtensor
enter_batch_of_gradients = _C._vmapmode_increment_nesting
leave_batch_of_gradients = _C._vmapmode_decrement_nesting
transform_level = _C._functorch.maybe_current_level
transforms_depth = _C._functorch.get_dynamic_layer_stack_depth
is_forward_recorded = _C._is_fwd_grad_enabled
record_forward = _C._set_fwd_grad_enabled
enter_dual_level = _C._enter_dual_level
leave_dual_level = _C._exit_dual_level
without_transforms = pyfunctorch.temporarily_clear_interpreter_stack
leave_transforms = _C._functorch.pop_dynamic_layer_stack_and_undo_to_depth

# ---- attributes that are read where they are used --------------------------------------------------------------------

#: Private attributes that are read of objects of torch, and public ones of its private classes: all of them are there.
ATTRIBUTES: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "_backward_hooks _base _has_symbolic_sizes_strides _is_view _is_zerotensor _version"),
    (torch.UntypedStorage, "_cdata"),
    (torch.autograd.Function, "_backward_cls"),
    (torch.autograd.Function._backward_cls, "_forward_cls"),
    (_C._FunctionBase, "_register_hook_dict _sequence_nr"),
    (torch.autocast("cpu"), "_cache_enabled _enabled device fast_dtype"),
    (torch.ops.aten.add.Tensor, "_overloadpacket _schema decompose name namespace tags"),
    (FakeTensor, "device"),
    (FakeTensorMode, "can_run_unsafe_fallback cpp_meta_supports_symint _unbacked_special_fake_handling_ops"),
    (FakeTensorConverter, "from_meta_and_device from_real_tensor"),
    (fake_impls, "get_fast_op_impls has_meta op_implementations_checks op_implementations_dict"),
    (fake_impls, "_is_tensor_constructor _like_tensor_constructors"),
    (fake_impl, "set_ctx_getter"),
    (operator_registry, "find"),
    (forward_ad, "_current_level"),
    (_device, "CURRENT_DEVICE"),
)

for _owner, _names in ATTRIBUTES:
    for _name in _names.split():
        getattr(_owner, _name)


def is_batched(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a dimension of an open `vmap`, at any level of open transforms."""
    while is_functorch_wrapped_tensor(tensor):
        if _is_batched(tensor):
            return True
        tensor = _unwrapped(tensor)
    return False


def forward_level() -> int:
    """How many levels of forward-mode differentiation are open, less one."""
    return forward_ad._current_level


def default_device() -> torch.device | None:
    """What `torch.set_default_device` has set."""
    return _device.CURRENT_DEVICE


def set_default_device(device: torch.device | None) -> None:
    _device.CURRENT_DEVICE = device


#: Where `torch.set_default_device` keeps the mode that it has entered.
_DEFAULT_MODE = torch._GLOBAL_DEVICE_CONTEXT


def devices_around() -> int:
    """How many devices have been entered that go before the default one, or come back when there is none."""
    default = getattr(_DEFAULT_MODE, "device_context", None)
    replaced = 0 if default is None else default.prev_mode is not None
    return replaced + sum(type(mode) is DeviceContext and mode is not default for mode in function_mode_stack())


#: Whether FX traces symbolically in this thread (torch's public function that tells warns): of torch 2.14 and later, a
#: state of the thread, before it a global of the module.
if hasattr(_symbolic_trace, "_get_is_fx_tracing"):
    is_traced_by_fx: Callable[[], bool] = _symbolic_trace._get_is_fx_tracing
else:
    _FX_GLOBALS = vars(_symbolic_trace)
    _FX_GLOBALS["_is_fx_tracing_flag"]

    def is_traced_by_fx() -> bool:
        return bool(_FX_GLOBALS["_is_fx_tracing_flag"])


#: What torch's Python code says of the dispatch modes that have been entered.
MODE_FLAGS = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)


def mode_flags() -> dict[str, bool]:
    names = vars(_python_dispatch)
    return {name: names[name] for name in MODE_FLAGS if name in names}


def set_mode_flags(flags: dict[str, bool]) -> None:
    """A program that is traced is told of its own modes, not of the tracer's. Leaving a mode sets what was before."""
    vars(_python_dispatch).update(flags)


GLOBAL_HOOKS = (
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_buffer_registration_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
)
for _name in GLOBAL_HOOKS:
    getattr(module_internals, _name)


def has_global_hooks() -> bool:
    """Whether there are hooks for the calls of all modules, or for what all modules are given."""
    return any(getattr(module_internals, name) for name in GLOBAL_HOOKS)


#: Of torch 2.15 and later: what distributions ask of their arguments.
all_true_or_assert: Callable[..., bool] = getattr(
    torch.distributions.distribution, "_all_true_or_runtime_assert", absent("_all_true_or_runtime_assert")
)

# ---- what only one feature needs -------------------------------------------------------------------------------------

_ROW = "calls of it break the graph"
ASSERTIONS = feature("checks of tensors break the graph", assert_async="torch._assert_async")
check_tensor_all = optional("torch._check_tensor_all", _ROW)
get_module_name = optional("torch.nn.Module._get_name", "it is interpreted")
is_compiling = optional("torch._utils.is_compiling", "it is interpreted")
is_scripting = optional("torch._jit_internal.is_scripting", "it is interpreted")
is_tracing = optional("torch.jit._trace.is_tracing", "it is interpreted")
make_wrapper_subclass = optional("torch.Tensor._make_wrapper_subclass", _ROW)
native_multi_head_attention = optional("torch._native_multi_head_attention", _ROW)
number_of_optimizer = optional("torch.optim.optimizer._get_value", "it is interpreted")
numbers_of_optimizer = optional("torch.optim.optimizer._stack_if_compiling", "it is interpreted")
RANGES = feature("kernels have no names in profiles", record="torch._C._profiler._RecordFunctionFast")
profiler_enabled = optional("torch._C._autograd._profiler_enabled", _ROW)
to_dlpack = optional("torch._C._to_dlpack", _ROW)
STORAGES = feature("training is launched kernel by kernel", users="torch._C._storage_Use_Count")
typed_storage = optional("torch.Tensor._typed_storage", _ROW)
wrapped_call_impl = optional("torch.nn.Module._wrapped_call_impl", "modules are called through what there is")
custom_function_call = optional(
    "torch._functorch.autograd_function.custom_function_call", "custom functions in transforms break the graph"
)
_NO_CONTROL_FLOW = "it breaks the graph"
COND = optional("torch.ops.higher_order.cond", _NO_CONTROL_FLOW)
WHILE_LOOP = optional("torch.ops.higher_order.while_loop", _NO_CONTROL_FLOW)
SCAN = optional("torch.ops.higher_order.scan", _NO_CONTROL_FLOW)
MAP = optional("torch.ops.higher_order.map_impl", _NO_CONTROL_FLOW)
FLEX_ATTENTION = optional("torch.ops.higher_order.flex_attention", _NO_CONTROL_FLOW)
safe_softmax = optional("torch._safe_softmax", _NO_CONTROL_FLOW)
#: What calls them for functions that take containers apart: in eager mode, through torch's own compiler.
call_control_flow = optional("torch._higher_order_ops.utils._maybe_compile_and_run_fn", _NO_CONTROL_FLOW)
#: The functions that call them, by their names for the user.
CONTROL_FLOW_FUNCTIONS = {
    "torch.cond": torch.cond,
    "torch.while_loop": optional("torch._higher_order_ops.while_loop.while_loop", _NO_CONTROL_FLOW),
    "scan": optional("torch._higher_order_ops.scan.scan", _NO_CONTROL_FLOW),
    "map": optional("torch._higher_order_ops.map.map", _NO_CONTROL_FLOW),
    "associative_scan": optional("torch._higher_order_ops.associative_scan.associative_scan", _NO_CONTROL_FLOW),
}
#: The classes of these operators, of which there is one each.
CONTROL_FLOW = {type(op) for op in (COND, WHILE_LOOP, SCAN, MAP, FLEX_ATTENTION) if isinstance(op, HigherOrderOperator)}

#: torch.vmap: its Python functions, and what they do; all of them, or none.
VMAP = feature(
    "torch.vmap breaks the graph",
    increment="torch._functorch.predispatch._vmap_increment_nesting",
    decrement="torch._functorch.predispatch._vmap_decrement_nesting",
    add="torch._functorch.predispatch._add_batch_dim",
    remove="torch._functorch.predispatch._remove_batch_dim",
    load="torch._functorch.predispatch.lazy_load_decompositions",
    increment_native="torch._C._functorch._vmap_increment_nesting",
    decrement_native="torch._C._functorch._vmap_decrement_nesting",
    add_native="torch._C._functorch._add_batch_dim",
    remove_native="torch._C._functorch._remove_batch_dim",
)
#: torch.func's derivatives: their levels, what lifts a tensor to one and takes it down, and the parts of them that are
#: in Python. Before torch 2.13 the first four names are those of the native functions.
TRANSFORMS = feature(
    "torch.func's derivatives break the graph",
    enter_grad="torch._functorch.eager_transforms._grad_increment_nesting",
    leave_grad="torch._functorch.eager_transforms._grad_decrement_nesting",
    enter_jvp="torch._functorch.eager_transforms._jvp_increment_nesting",
    leave_jvp="torch._functorch.eager_transforms._jvp_decrement_nesting",
    lower="torch._functorch.eager_transforms._unwrap_for_grad",
    enter_jvp_native="torch._C._functorch._jvp_increment_nesting",
    leave_jvp_native="torch._C._functorch._jvp_decrement_nesting",
    lower_native="torch._C._functorch._unwrap_for_grad",
    lift="torch._C._functorch._wrap_for_grad",
    record="torch._functorch.eager_transforms._set_tensor_requires_grad",
    records="torch._C._functorch.get_inplace_requires_grad_allowed",
    may_record="torch._C._functorch.set_inplace_requires_grad_allowed",
    gradients="torch._functorch.eager_transforms._autograd_grad",
    basis="torch._functorch.eager_transforms._chunked_standard_basis_for_",
)
#: The Python functions around native ones of torch 2.13 and later; before it these are called themselves.
_around = vars(_predispatch)
enter_dual: Callable[..., int] = _around.get("_enter_dual_level", enter_dual_level)
leave_dual: Callable[..., None] = _around.get("_exit_dual_level", leave_dual_level)
make_dual_native, unpack_dual_native = torch._VF._make_dual, torch._VF._unpack_dual
make_dual: Callable[..., Any] = _around.get("_make_dual", make_dual_native)
unpack_dual: Callable[..., Any] = _around.get("_unpack_dual", unpack_dual_native)
vmap_impl = optional("torch._functorch.vmap.vmap_impl", "it is interpreted")

#: Which library computes a convolution, and in which order of memory.
CONVOLUTIONS = feature(
    "torch's own fakes say how the results of convolutions lie in memory",
    backend="torch._C._select_conv_backend",
    memory_format="torch._C._conv_determine_backend_memory_format",
)

#: Of torch 2.15 and later: the context variable that says whether the program orders kernels, and how it is asked.
SDPA_ORDER = "_sdpa_kernel_uses_priority"
sdpa_order: Any = getattr(torch.nn.attention, SDPA_ORDER, None)
is_sdpa_ordered: Callable[[], bool] = getattr(torch.nn.attention, "_is_sdp_priority_order_active", bool)

deterministic_fill = optional(
    "torch._C._get_deterministic_fill_uninitialized_memory",
    "the public setting is asked",
    lambda: torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
)
run_backward = optional("torch.autograd.graph._engine_run_backward", "sympy is imported", torch.autograd.grad)
is_graph_kept = optional(
    "torch._C._autograd._get_current_graph_task_keep_graph", "what backward passes keep is freed late", lambda: True
)
LazyGraphModule: type[torch.fx.GraphModule] = optional(
    "torch.fx._lazy_graph_module._LazyGraphModule", "code of graphs is written at once", torch.fx.GraphModule
)
_SOURCES = optional("torch.fx.graph_module._loader.eval_cache", "sources of graphs are kept for good", {})
HIGHER_ORDER = optional(
    "torch._higher_order_ops.utils.registered_hop_fake_fns", "operators of higher order break the graph", {}
)
_FAKES = "custom operators without results break the graph"
has_trivial_fake = optional("torch._library.utils.can_generate_trivial_fake_impl", _FAKES, lambda operator: False)
#: Of torch 2.12 and later: before it, such a fake does nothing.
trivial_fake: Callable[..., None] = getattr(library_utils, "generate_trivial_fake_impl", lambda *_, **__: None)
#: The wrapper of torch's own operators that imports the stock compiler when it is called first.
without_compiler = optional(
    "torch._compile._disable_dynamo", "torch's own operators may import the stock compiler", lambda function: function
)
for _module in ("fft", "linalg", "nn.functional", "special"):
    optional(f"torch._refs.{_module}", "its operators have no kernels for fakes")
#: Process groups by their names, which operators that communicate are given, and what is known of all of them.
_GROUPS = "calls of torch.distributed break the graph"
resolve_group = optional("torch.distributed.distributed_c10d._resolve_process_group", _GROUPS)
_groups = optional("torch.distributed.distributed_c10d._world", _GROUPS, SimpleNamespace(pg_coalesce_state={}))
#: It gives the tensor that it is given, when that is complete. Its schema says nothing of it.
wait_tensor = optional("torch.ops._c10d_functional.wait_tensor.default", _GROUPS)
#: The module of the functions that communicate and write to nothing; it is imported where they are used.
FUNCTIONAL_COLLECTIVES = "torch.distributed._functional_collectives"


def is_coalescing(group: Any) -> bool:
    """Whether collectives of the group are collected, to be issued together."""
    return group in _groups.pg_coalesce_state


#: The native classes of placements of sharded tensors.
_PLACED = optional("torch._C._distributed", "placements of sharded tensors break the graph", SimpleNamespace())
PLACEMENTS = tuple(
    getattr(_PLACED, name) for name in ("Shard", "Replicate", "Partial", "StridedShard") if hasattr(_PLACED, name)
)
default_store = optional(
    "torch.distributed.distributed_c10d._get_default_store", "a process does not see that it compiles alone"
)
_DDP = "torch.nn.parallel.DistributedDataParallel"
DATA_PARALLEL = feature(
    "DistributedDataParallel breaks the graph",
    before=f"{_DDP}._pre_forward",
    behind=f"{_DDP}._post_forward",
    active=f"{_DDP}._get_active_ddp_module",
    inside=f"{_DDP}._inside_ddp_forward",
    sink="torch.nn.parallel.distributed._DDPSink",
)
LOGS = feature(
    "torch's own logging knows nothing of onegraph",
    logger="torch._logging._internal.getArtifactLogger",
    registry="torch._logging._internal.log_registry",
    state="torch._logging._internal._get_log_state",
)


def forget_source(name: str) -> None:
    """Let go of the source of a graph module, which FX keeps for good by the name of a file."""
    _SOURCES.pop(name, None)
