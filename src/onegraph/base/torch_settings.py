"""Torch's names of settings, and what each means here: one row for a name, or for all names of a pattern.

The names are those of `torch._dynamo.config`, `torch._inductor.config`, `torch._functorch.config` and
`torch.compiler.config` of torch 2.11 to 2.15. A test goes through those modules and finds a row for each.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.base.setting_names import NAMES


@dataclass(frozen=True, slots=True)
class Same:
    """Another spelling of a setting of ours. `ours` makes our value of theirs, `theirs` theirs of ours."""

    field: str
    ours: Callable[[Any], Any] = lambda value: value
    theirs: Callable[[Any], Any] = lambda value: value

    @property
    def meaning(self) -> str:
        return f"another spelling of {self.field}"


@dataclass(frozen=True, slots=True)
class Nothing:
    """Accepted, and without a meaning here: why."""

    why: str

    @property
    def meaning(self) -> str:
        return f"accepted, no meaning here: {self.why}"


@dataclass(frozen=True, slots=True)
class Refused:
    """What it asks for is not done, and programs that ask for it need it: what to do in its place.

    The values that ask for nothing are accepted: those given, or else those that are off.
    """

    instead: str
    accepted: tuple[Any, ...] = ()

    @property
    def meaning(self) -> str:
        return f"refused: {self.instead}"

    def accepts(self, value: object) -> bool:
        return value in self.accepted if self.accepted else is_off(value)


Row = Same | Nothing | Refused


def is_off(value: object) -> bool:
    """Whether a value asks for nothing."""
    off: tuple[Any, ...] = (None, False, 0, "", "none", [], (), {}, set())
    return any(type(value) is type(nothing) and value == nothing for nothing in off)


def _opposite(field: str) -> Same:
    return Same(field, lambda value: not value, lambda value: not value)


def _folder(path: str | None) -> Path | None:
    return None if path is None else Path(path)


def _text_of_folder(path: Path | None) -> str | None:
    return None if path is None else str(path)


_ALWAYS = "always done"
_OWN_CODE = "of the code that torch's compiler is made of; onegraph's is another"
_GUARDS = "guards cost less than a microsecond; the option guard_filter_fn does without some"
_TRITON = "kernels are not Triton's"
_GPU = "there are no kernels for this device yet"
_AUTOTUNING = "library calls are chosen by measuring them (the option library_calls); kernels have nothing to tune"
_FUSION = "what is fused is decided by the memory traffic and the work of each kernel"
_PASSES = "write a backend: a function of a graph and its inputs that changes the graph and calls another backend"
_DISTRIBUTED = "collectives stay what they are, in the order of the program"
_CPP = "kernels are compiled by LLVM in the process, without a C++ compiler"
_AOT = "onegraph.save and onegraph.load are for what is compiled ahead of time"
_CACHE = "the cache on disk has one form (onegraph docs cache), and is checked whenever it is read"
_WORKERS = "kernels are compiled in the process"
_CAPTURES = "a graph is captured for each size of its inputs, with memory of its own"
_TRACE = "what each stage makes is shown by logs (ONEGRAPH_LOGS)"
_FILES = "the option debug_files chooses what the option debug writes"
_REPRO = "a graph that fails is run operator by operator, with a warning"
_JUDGED = "a difference is judged by the call in double precision"
_TESTING = "for the tests of torch's compiler"
_EQUAL = "kernels of equal layers are compiled once"
_RECOMPUTE = "what is computed again is found by a minimal cut; the option memory_budget is its bound"
_PADDING = "memory is laid out as eager lays it out"
_METRICS = "counts and times come from onegraph.explain, onegraph.compile_times and logs"

_ROWS: dict[str, Row] = {
    # ---- torch._dynamo.config, torch.compiler.config -----------------------------------------------------------------
    "recompile_limit": Same("recompile_limit"),
    "cache_size_limit": Same("recompile_limit"),
    "accumulated_recompile_limit": Same("accumulated_recompile_limit"),
    "accumulated_cache_size_limit": Same("accumulated_recompile_limit"),
    "fail_on_recompile_limit_hit": Same("fail_on_recompile_limit_hit"),
    "fail_on_cache_limit_hit": Same("fail_on_recompile_limit_hit"),
    "skip_code_recursive_on_*_limit_hit": Nothing("at the limit a function runs eagerly; what it calls is compiled"),
    "error_on_recompile": Same("error_on_recompile"),
    "suppress_errors": Same("suppress_errors"),
    "capture_scalar_outputs": Same("capture_scalar_outputs"),
    "assume_static_by_default": Same("assume_static_by_default"),
    "automatic_dynamic_shapes": Same("automatic_dynamic_shapes"),
    "specialize_int": Same("specialize_int"),
    "specialize_float": Same("specialize_float"),
    "disable": Same("disable"),
    "reorderable_logging_functions": Same("reorderable_logging_functions", tuple, set),
    "ignore_logging_functions": Same("ignore_logging_functions", tuple, set),
    "capture_dynamic_output_shape_ops": Nothing("graphs go on behind operators like nonzero: the sizes are symbols"),
    "dynamic_shapes": Nothing("sizes that change are symbols; dynamic=False of compile makes them constants"),
    "verbose": Nothing("errors name the user's line and the reason; raise_compiler_errors gives the whole traceback"),
    "verify_correctness": Same("verify_correctness"),
    "capture_func_transforms": Nothing("transforms are always captured"),
    "capture_autograd_function": Nothing(_ALWAYS),
    "capture_sparse_compute": Nothing("operators on sparse tensors break the graph"),
    "capture_profiler_record_function": Nothing("profilers see the operators of a graph as it is run"),
    "constant_fold_autograd_profiler_enabled": Nothing("profilers see the operators of a graph as it is run"),
    "inline_inbuilt_nn_modules": Nothing(_ALWAYS),
    "allow_unspec_int_on_nn_module": Nothing("numbers of modules that change become symbols, as all others"),
    "force_parameter_static_shapes": Nothing("the sizes of parameters are constants"),
    "force_nn_module_property_static_shapes": Nothing("the sizes of parameters are constants"),
    "trace_numpy": Same("trace_numpy"),
    "numpy_default_*": Refused(
        "give the dtype in the call: NumPy's own defaults count", ("float64", "complex128", "int64")
    ),
    "use_numpy_random_stream": Nothing("random numbers of NumPy are always NumPy's"),
    "optimize_ddp": Same("optimize_ddp", lambda value: value not in (False, "no_optimization")),
    "optimize_ddp_lazy_compile": Nothing("the pieces of a backward pass are compiled with its graph"),
    "allow_rnn": Nothing("GRU, LSTM and RNN are always captured, as one call"),
    "rewrite_assert_with_torch_assert": Nothing("assertions about values break the graph, and are always checked"),
    "do_not_emit_runtime_asserts": Nothing("assertions about values break the graph, and are always checked"),
    "prefer_deferred_runtime_asserts_over_guards": Nothing("facts about sizes are guards"),
    "nested_graph_breaks": Nothing("a graph goes on behind a break in a callee, too (disable_nested_graph_breaks)"),
    "replay_side_effects": Refused("what a program writes is seen behind its graph, as in eager", (True,)),
    "side_effect_replay_policy": Nothing("what a program writes is seen behind its graph, as in eager"),
    "allow_ignore_mark_dynamic": Nothing("maybe_mark_dynamic is the mark that a program may contradict"),
    "_dynamic_shapes_spec": Refused("mark sizes: onegraph.compile(dynamic=True)"),
    "_shapes_spec": Refused("mark sizes: onegraph.compile(dynamic=True)"),
    "automatic_dynamic_*": Nothing("sizes that change become symbols in the process that sees them"),
    "computed_lazy_constant_max_nodes": Nothing(_OWN_CODE),
    "minimum_call_count": Nothing("functions are compiled at their first call"),
    "dead_code_elimination": Nothing(_ALWAYS),
    "generate_pycode": Nothing(_OWN_CODE),
    "only_allow_pt2_compliant_ops": Nothing("operators that cannot be in a graph break it"),
    "skip_fsdp_*": Nothing(_DISTRIBUTED),
    "_unsafe_skip_fsdp_module_guards": Nothing(_GUARDS),
    "skip_torchrec": Nothing("code of libraries is captured like any other"),
    "force_unspec_int_unbacked_size_like_on_torchrec_kjt": Nothing("numbers that change become symbols"),
    "dont_skip_tracing": Nothing("nothing is skipped by its file"),
    "skipfiles_inline_module_allowlist": Nothing("nothing is skipped by its file"),
    "allowed_functions_module_string_ignorelist": Nothing(_OWN_CODE),
    "*traceable_tensor_subclasses": Nothing("subclasses of Tensor are captured where their code can be"),
    "inline_torch_dispatch_torch_compile": Nothing(_ALWAYS),
    "leaf_function_*": Nothing("functions for allow_in_graph are called as they are"),
    "error_on_nested_*_trace": Nothing("under another tracer, compiled functions run as they are written"),
    "force_compile_during_fx_trace": Nothing("under another tracer, compiled functions run as they are written"),
    "raise_on_ctx_manager_usage": Nothing("set_stance, patch and the like are both functions and context managers"),
    "error_on_dynamo_callback_in_fullgraph_compiled_code": Nothing("a break in a whole graph is an error"),
    "raise_on_unsafe_aot_autograd": Nothing("results always equal eager's"),
    "assume_dunder_attributes_remain_unchanged": Nothing("what a trace asks of the program's own classes is guarded"),
    "skip_*guards*": Nothing(_GUARDS),
    "guard_nn_modules*": Nothing(_GUARDS),
    "*dict_tags*": Nothing(_GUARDS),
    "enable_cpp_*": Nothing("guards are always C"),
    "report_guard_failures": Nothing("why a function is compiled again is told by the log channel recompiles"),
    "graph_break_on_nn_param_ctor": Nothing("a Parameter that is made breaks the graph"),
    "skip_fwd_side_effects_in_bwd_under_checkpoint": Nothing("what a checkpoint runs again does what eager does"),
    "wrap_top_frame": Nothing("hooks of a compiled module are always called, and captured"),
    "install_free_tensors*": Nothing("tensors that a function finds outside are inputs of its graph"),
    "allow_empty_graphs": Nothing("a function without operations needs no graph"),
    "compiled_autograd*": Nothing("the backward pass is compiled with its forward pass"),
    "trace_autograd_ops": Nothing("calls of autograd are captured where they can be"),
    "caching_precompile": Nothing(_AOT),
    "strict_precompile": Nothing(_AOT),
    "enable_aot_compile": Nothing(_AOT),
    "log_file_name": Nothing("logs are Python's: give the logger 'onegraph' a handler"),
    "run_gc_after_compile": Nothing("the collector rests while a frame is traced, and goes on behind it"),
    "gc_gen2_threshold_during_compile": Nothing("the collector rests while a frame is traced, and goes on behind it"),
    "job_id": Nothing(_CACHE),
    "pgo_*": Nothing("sizes that change become symbols in the process that sees them"),
    "cache_key_tag": Nothing(_CACHE),
    "force_disable_caches": _opposite("cache"),
    "*_sources": Nothing("sizes that change become symbols; compile has dynamic= for all of a function"),
    "dynamic_values": Nothing("numbers that change become symbols"),
    "force_cudagraph_gc": Nothing(_GPU),
    "compile_on_one_rank": Nothing(_DISTRIBUTED),
    "issue_3_13_0_warning": Nothing("onegraph says which Pythons it runs on where it does not"),
    "cudagraph_backend_*": Nothing(_GPU),
    "enable_compiler_collectives": Nothing(_DISTRIBUTED),
    "enable_p2p_compilation": Nothing(_DISTRIBUTED),
    "fake_tensor_*": Nothing(_OWN_CODE),
    "repro_after": Same("repro_after"),
    "repro_level": Same("repro_level"),
    "repro_forward_only": Same("repro_forward_only"),
    "repro_tolerance": Nothing(_JUDGED),
    "repro_ignore_non_fp": Nothing("what is no float is equal, or differs"),
    "same_two_models_use_fp64": Nothing(_JUDGED),
    "replay_record_enabled": Nothing(_REPRO),
    "debug_dir_root": Same("debug_dir", _folder, _text_of_folder),
    "debug_*": Nothing(_TESTING),
    "cprofile": Nothing(_METRICS),
    "dynamo_profiler": Nothing(_METRICS),
    "log_*": Nothing(_METRICS),
    "record_*": Nothing(_METRICS),
    "use_lazy_graph_module": Nothing(_OWN_CODE),
    "use_lamba_guard_for_object_aliasing": Nothing(_GUARDS),
    "prepare_freezing": Nothing("parameters are kept in the form that a library call wants without it"),
    "enable_trace_*": Nothing(_ALWAYS),
    "enable_faithful_generator_behavior": Nothing(_ALWAYS),
    "enable_dynamo_decompositions": Nothing(_OWN_CODE),
    "enable_invoke_subgraph_regional_compile": Nothing("a region is a part of the graph around it"),
    "inline_invoke_subgraph": Nothing("a region is a part of the graph around it"),
    "inline_single_use_invoke_subgraph": Nothing("a region is a part of the graph around it"),
    "*graph_deduplication*": Nothing(_EQUAL),
    "track_nodes_for_deduplication": Nothing(_EQUAL),
    "invalidate_compile_context_weakrefs": Nothing(_OWN_CODE),
    "canonicalize_output_graph_node_order": Nothing(_OWN_CODE),
    "pt2_compile_id_prefix": Nothing(_METRICS),
    "ignore_logger_methods": Nothing("calls of loggers break the graph; ignore_logging_functions leaves functions out"),
    "base_dir": Nothing(_OWN_CODE),
    "_custom_ops_profile": Nothing(_OWN_CODE),
    "_autograd_backward_strict_mode_*": Nothing(_OWN_CODE),
    "inject_*": Nothing(_TESTING),
    "_save_config_ignore": Nothing("settings are saved whole"),
    "_cache_config_*": Nothing(_CACHE),
    "TYPE_CHECKING": Nothing(_OWN_CODE),
    # ---- torch._inductor.config --------------------------------------------------------------------------------------
    "cpp.threads": Same("threads", lambda value: max(value, 0), lambda value: value or -1),
    "cpp.march": Same(
        "target_cpu", lambda value: "" if value in (None, "native") else value, lambda value: value or "native"
    ),
    "cpp.dynamic_threads": Nothing("kernels follow torch.get_num_threads() where the option threads is 0"),
    "cpp.*": Nothing(_CPP),
    "emulate_precision_casts": Same("eager_rounding"),
    "emulate_precision_casts_on_saved_tensors": Nothing("what is saved for the backward pass is rounded as in eager"),
    "size_asserts": Nothing("sizes are checked by guards"),
    "fallback_random": Same("fallback_random"),
    "align_random_eager": Nothing("random numbers always equal eager's"),
    "use_rand4x": Nothing("random numbers always equal eager's"),
    "freezing": Same("freeze_parameters"),
    "freezing_discard_parameters": Nothing("the program's parameters stay its own"),
    "fx_graph_cache": Same("cache"),
    "global_cache_dir": Nothing("the option cache_dir is where compiled kernels are kept"),
    "*cache*": Nothing(_CACHE),
    "max_autotune": Nothing(_AUTOTUNING),
    "max_autotune_*": Nothing(_AUTOTUNING),
    "*autotun*": Nothing(_AUTOTUNING),
    "autoheuristic_log_path": Nothing(_AUTOTUNING),
    "autoheuristic_use": Nothing(_AUTOTUNING),
    "autoheuristic_collect": Nothing(_AUTOTUNING),
    "autoheuristic_use.*": Nothing(_AUTOTUNING),
    "autoheuristic_collect.*": Nothing(_AUTOTUNING),
    "coordinate_descent_*": Nothing(_AUTOTUNING),
    "*benchmark*": Nothing(_AUTOTUNING),
    "multi_kernel_hints": Nothing(_AUTOTUNING),
    "lookup_table.*": Nothing(_AUTOTUNING),
    "mixed_mm_choice": Nothing(_AUTOTUNING),
    "external_matmul": Refused("register the product as a custom operator (torch.library.custom_op), and call it"),
    "epilogue_fusion": Nothing(_FUSION),
    "deterministic": Nothing("torch.use_deterministic_algorithms counts, as in eager"),
    "batch_invariant": Refused("choose the calls: the option library_calls='aten'"),
    "use_fast_math": Nothing("results equal eager's, so functions are as exact as its own"),
    "numerics": Nothing("results equal eager's"),
    "force_same_precision": Nothing("results equal eager's"),
    "strict_signed_zero": Nothing(_ALWAYS),
    "strict_output_strides": Nothing(_ALWAYS),
    "keep_output_stride": Nothing(_ALWAYS),
    "shape_padding": Nothing(_PADDING),
    "*pad*": Nothing(_PADDING),
    "layout_opt*": Nothing(_PADDING),
    "force_layout_optimization": Nothing(_PADDING),
    "expand_dimension_for_pointwise_nodes": Nothing(_PADDING),
    "custom_partitioner_fn": Refused("set memory_budget, or mark what is computed again with torch.utils.checkpoint"),
    "custom_should_partition_ops": Refused("break the graph there: onegraph.graph_break()"),
    "joint_custom_*": Refused(_PASSES),
    "*_custom_*pass": Refused(_PASSES),
    "*_fusion_options": Refused(_PASSES),
    "add_pre_grad_passes": Refused(_PASSES),
    "remove_pre_grad_passes": Nothing(_OWN_CODE),
    "disabled_passes": Nothing(_OWN_CODE),
    "*_pass_timing": Nothing(_OWN_CODE),
    "use_*_passes": Nothing(_OWN_CODE),
    "*_fx_passes*": Nothing(_OWN_CODE),
    "inductor_choices_class": Refused("write a backend of your own"),
    "*_TESTING*": Nothing(_TESTING),
    "_raise_error_for_testing": Nothing(_TESTING),
    "test_configs.*": Nothing(_TESTING),
    "nan_asserts": Refused("look for them with torch.autograd.detect_anomaly, or onegraph.compile(backend='eager')"),
    "runtime_triton_nan_asserts": Nothing(_TRITON),
    "*assert*": Nothing("indices are checked as in eager; the option sanitize checks every access to memory"),
    "unsafe_*": Nothing(_OWN_CODE),
    "triton.cudagraphs": Same("cuda_graphs"),
    "triton.cudagraph*": Nothing(_CAPTURES),
    "triton.*": Nothing(_TRITON),
    "*triton*": Nothing(_TRITON),
    "trace.enabled": Same("debug"),
    "trace.debug_dir": Same("debug_dir", _folder, _text_of_folder),
    "trace.*": Nothing(_FILES),
    "*fusion*": Nothing(_FUSION),
    "combo_kernel*": Nothing(_FUSION),
    "score_fusion_memory_threshold": Nothing(_FUSION),
    "*realize_*": Nothing(_FUSION),
    "*pointwise_cat*": Nothing(_FUSION),
    "pick_loop_orders": Nothing(_FUSION),
    "split_reductions": Nothing(_FUSION),
    "unroll_reductions_threshold": Nothing(_FUSION),
    "online_softmax": Nothing(_FUSION),
    "var_std_reduction_dedup": Nothing(_FUSION),
    "min_num_split": Nothing(_FUSION),
    "small_memory_access_threshold": Nothing(_FUSION),
    "size_threshold_for_succ_based_strategy": Nothing(_FUSION),
    "inplace_buffers": Nothing("a buffer that is read for the last time is written over"),
    "allow_buffer_reuse": Nothing("memory between kernels is planned, and used again"),
    "memory_p*": Nothing("memory between kernels is planned, and used again"),
    "reorder_for_peak_memory*": Nothing("memory between kernels is planned, and used again"),
    "reorder_for_locality*": Nothing(_FUSION),
    "*bucket*": Nothing(_DISTRIBUTED),
    "*reduce_scatters*": Nothing(_DISTRIBUTED),
    "reorder_*": Nothing(_DISTRIBUTED),
    "_collective.*": Nothing(_DISTRIBUTED),
    "aten_distributed_optimizations.*": Nothing(_DISTRIBUTED),
    "_fuse_ddp_*": Nothing(_DISTRIBUTED),
    "_micro_pipeline_tp": Nothing(_DISTRIBUTED),
    "decompose_shard_dim_alltoall": Nothing(_DISTRIBUTED),
    "int*_node_bw": Nothing(_DISTRIBUTED),
    "min_overlap_ratio": Nothing(_DISTRIBUTED),
    "estimate_op_runtime": Nothing(_DISTRIBUTED),
    "aot_inductor.*": Nothing(_AOT),
    "aot_inductor_mode.*": Nothing(_AOT),
    "*_wrapper*": Nothing(_CPP),
    "disable_cpp_codegen": Nothing(_CPP),
    "cuda.*": Nothing(_GPU),
    "cutlass.*": Nothing(_GPU),
    "xpu.*": Nothing(_GPU),
    "rocm.*": Nothing(_GPU),
    "mtia.*": Nothing(_GPU),
    "halide.*": Nothing("kernels are not Halide's"),
    "nvgemm_*": Nothing(_GPU),
    "cpu_gpu_bw": Nothing(_GPU),
    "*cudagraph*": Nothing(_CAPTURES),
    "*_cuda_launcher": Nothing(_GPU),
    "keep_static_cubin_raw": Nothing(_GPU),
    "graph_partition": Nothing("a compiled graph is one call already"),
    "dynamic_scale_rblock": Nothing(_GPU),
    "bmm_shared_a": Nothing(_GPU),
    "*_backend": Nothing("the backend is what compile is told: backend=..."),
    "*_backends": Nothing(_AUTOTUNING),
    "compile_threads": Nothing(_WORKERS),
    "compile_worker_*": Nothing(_WORKERS),
    "worker_*": Nothing(_WORKERS),
    "torchinductor_worker_logpath": Nothing(_WORKERS),
    "quiesce_*": Nothing(_WORKERS),
    "precompilation_timeout_seconds": Nothing(_WORKERS),
    "file_lock_timeout": Nothing(_CACHE),
    "sleep_sec_TESTING_ONLY": Nothing(_TESTING),
    "eager_numerics.*": Nothing("results equal eager's"),
    "auto_chunker.*": Nothing("memory is bounded by the option memory_budget"),
    "activation_memory_budget": Same("memory_budget"),
    "static_weight_shapes": Nothing("the sizes of parameters are constants"),
    "wrap_inductor_compiled_regions": Nothing(_OWN_CODE),
    "debug": Same("debug"),
    "save_args": Nothing(_TRACE),
    "comment_origin": Nothing(_TRACE),
    "kernel_name_max_ops": Nothing(_TRACE),
    "generate_intermediate_hooks": Nothing(_TRACE),
    "annotate_training": Nothing(_TRACE),
    "enabled_metric_tables": Nothing(_METRICS),
    "profile*": Nothing(_METRICS),
    "_profile_var": Nothing(_METRICS),
    "*progress": Nothing(_METRICS),
    "developer_warnings": Nothing(_METRICS),
    "warn_mix_layout": Nothing(_METRICS),
    "is_nightly_or_source": Nothing(_OWN_CODE),
    "is_predispatch": Nothing(_OWN_CODE),
    "fallback_by_default": Nothing("backend='aot_eager' runs operator by operator"),
    "implicit_fallbacks": Nothing("an operator without a kernel is called as eager calls it"),
    **dict.fromkeys(
        """selective_decompose enable_auto_functionalized_v2 apply_gumbel_max_trick dce use_dce pattern_matcher
        b2b_gemm_pass force_fuse_int_mm_with_mul keep_addmm_fused_for_half_dtypes use_mixed_mm fx_passes_numeric_check
        unbacked_symint_fallback run_jit_post_compile_hook fallback_embedding_bag_byte_unpack conv_1x1_as_mm
        assume_unaligned_fallback_output constant_and_index_propagation always_keep_tensor_constants compute_all_bounds
        joint_graph_constant_folding optimize_scatter_upon_const_tensor *partitioned_scatter_* bw_outputs_user_visible
        use_launch_metadata_schema _use_fp64_for_unbacked_floats decompose_mem_bound_mm assume_aligned_inputs
        assume_32bit_indexing enable_linear_binary_folding enable_autograd_for_aot treat_parameters_as_free_to_save
        write_are_deterministic_algorithms_enabled unlift_effect_tokens custom_op_default_layout_constraint
        torch_compile_graph_format generate_fake_kernels_from_real_mismatches force_non_lazy_backward_lowering
        _test_disable_functionalization guess_tangent_strides_as_outputs debug_assert debug_partitioner
        disable_guess_zero_tangent_for_mutated_input_subclass decompose_custom_triton_ops""".split(),
        Nothing(_OWN_CODE),
    ),
    "_sync_decision_cross_ranks": Nothing(_DISTRIBUTED),
    # ---- torch._functorch.config -------------------------------------------------------------------------------------
    "ban_recompute_*": Nothing(_RECOMPUTE),
    "recompute_views": Nothing(_RECOMPUTE),
    "aggressive_recomputation": Nothing(_RECOMPUTE),
    "max_dist_from_bw": Nothing(_RECOMPUTE),
    "activation_*": Nothing(_RECOMPUTE),
    "*pareto*": Nothing(_RECOMPUTE),
    "enable_activation_offloading": Nothing("what is kept for the backward pass stays on its device"),
    "is_non_builtin_to_include": Nothing(_RECOMPUTE),
    "remat_using_tags_for_fwd_loss_bwd_graph": Nothing("what a checkpoint marks is computed again"),
    "cse": Nothing(_ALWAYS),
    "functionalize_rng_ops": Nothing("random numbers always equal eager's"),
    "graphsafe_rng_functionalization": Nothing("random numbers always equal eager's"),
    "donated_buffer": Nothing("memory of the forward pass is used again where nobody else holds it"),
    "view_replay_for_aliased_outputs": Nothing("views that are returned are eager's views"),
    "check_custom_op_aliasing": Nothing("what a custom operator returns is looked at in every call"),
    "error_on_custom_op_aliasing": Nothing("what a custom operator returns is looked at in every call"),
    "backward_pass_autocast": Nothing("the backward pass runs under what it runs under in eager"),
    "saved_tensors_hooks_filtering_mode": Nothing("hooks of saved tensors are called as in eager"),
}
ROWS = MappingProxyType(_ROWS)
EXACT = MappingProxyType({name: row for name, row in _ROWS.items() if "*" not in name})
#: A whole group of names goes before what is asked of names in all groups.
PATTERNS = tuple(sorted(((name, row) for name, row in _ROWS.items() if "*" in name), key=lambda row: "." not in row[0]))
GROUPS = frozenset(name.partition(".")[0] for name in _ROWS if "." in name)


def row_of(name: str) -> Row | None:
    """What a name of torch means here: its own row, or that of the first pattern; None if torch has no such name."""
    if name not in NAMES or name in EXACT:
        return EXACT.get(name)
    return next((row for pattern, row in PATTERNS if fnmatchcase(name, pattern)), None)
