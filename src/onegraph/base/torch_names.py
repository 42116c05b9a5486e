"""Names of `torch.compiler` and `torch._dynamo` that onegraph has not, and what to use in their place.

`onegraph.NAME` says so. A test goes through both modules: each public name is here, or is a name of onegraph.
"""

from __future__ import annotations

from types import MappingProxyType

_PACKAGES = "what is compiled is in the cache on disk (onegraph docs cache), and in the files of onegraph.save"

ELSEWHERE = MappingProxyType(
    {
        "PrecompileError": _PACKAGES,
        "load_compiled_function": _PACKAGES,
        "precompile": _PACKAGES,
        "set_enable_guard_collectives": "each process compiles what it needs, without asking the others",
        "OptimizedModule": "a compiled module is of its own class; it has an attribute `onegraph_region`",
        "allow_c_slot": "slots of classes written in C are called as they are",
        "bytecode_debugger": "use pdb in the function, and onegraph.set_stance('force_eager')",
        "is_dynamo_disable_recursive": "onegraph.disable is always recursive unless it is told recursive=False",
        "override_cudagraphs": "the option cuda_graphs says whether graphs on GPUs are captured",
        "override_optimization_hint": "sizes have no hints that kernels are chosen by",
        "replay": "onegraph.explain(function)(arguments) compiles one call and tells of it",
        "reset_recompile_user_contexts": "why a function is compiled again is told by the log channel recompiles",
        "set_recursion_limit": "the limit is that of sys.setrecursionlimit, as in eager",
        "step_unsupported": "use onegraph.graph_break",
    }
)
