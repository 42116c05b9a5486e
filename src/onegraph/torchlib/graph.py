"""The FX container, with its Python code written when it is first needed: most graphs are compiled, never called."""

from torch.fx._lazy_graph_module import _LazyGraphModule as LazyGraphModule

__all__ = ["LazyGraphModule"]
