"""From a functional aten graph to native code: lowering, scheduling, memory planning, code generation, execution."""

from typing import TYPE_CHECKING

from onegraph.base.late import late_module

if TYPE_CHECKING:
    from onegraph.compiler.pipeline import compile_graph
else:  # a plan that is found on disk runs without the stages
    compile_graph = late_module("onegraph.compiler.pipeline").compile_graph

__all__ = ["compile_graph"]
