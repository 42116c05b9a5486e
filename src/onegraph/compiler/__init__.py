"""From a functional aten graph to native code: lowering, scheduling, memory planning, code generation, execution."""

from onegraph.compiler.pipeline import NativeGraph, compile_graph

__all__ = ["NativeGraph", "compile_graph"]
