"""All families of lowerings: importing one registers its operators."""

from onegraph.compiler.lower import (
    activations,
    arithmetic,
    assembly,
    creation,
    indexing,
    losses,
    movement,
    normalization,
    pointwise,
    pooling,
    reduction,
    resampling,
    scans,
    scatter,
    statistics,
    view,
)

__all__ = [
    "activations",
    "arithmetic",
    "assembly",
    "creation",
    "indexing",
    "losses",
    "movement",
    "normalization",
    "pointwise",
    "pooling",
    "reduction",
    "resampling",
    "scans",
    "scatter",
    "statistics",
    "view",
]
