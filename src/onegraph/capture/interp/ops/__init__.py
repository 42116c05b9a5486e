"""The instructions, a handler each: importing them fills the table."""

from onegraph.capture.interp.ops import (
    calls,
    containers,
    control,
    exceptions,
    functions,
    generators,
    names,
    operators,
    stack,
)

__all__ = ["calls", "containers", "control", "exceptions", "functions", "generators", "names", "operators", "stack"]
