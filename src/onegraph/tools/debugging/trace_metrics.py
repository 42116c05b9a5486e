"""What a compilation came to, in the fields of torch's record `compilation_metrics`."""

from __future__ import annotations

import time
from dataclasses import field

from onegraph.base import events as ev
from onegraph.base.dataclass import dataclass
from onegraph.base.events import Event, Location
from onegraph.tools.debugging.pieces import Piece
from onegraph.tools.debugging.trace_file import Json


@dataclass(slots=True)
class Metrics:
    """Collected of the events of one piece."""

    piece: Piece
    start: float = field(default_factory=time.time)
    operations: int = 0
    inputs: int = 0
    guards: int = 0
    symbols: int = 0
    broken: list[ev.GraphBroken] = field(default_factory=list)
    failure: tuple[str, str] | None = None
    fallbacks: list[str] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        match event:
            case ev.GraphCaptured(operations=operations, inputs=inputs):
                self.operations, self.inputs = operations, inputs
            case ev.GuardsBuilt(count=count):
                self.guards = count
            case ev.SizesMadeSymbolic(count=count):
                self.symbols = count
            case ev.GraphBroken():
                self.broken.append(event)
            case ev.OperatorFellBack(operator=operator):
                self.fallbacks.append(operator)
            case ev.StageTimed(stage=stage, seconds=seconds):
                self.stages[stage] = self.stages.get(stage, 0.0) + seconds
            case ev.KernelsCompiled(seconds=seconds):
                self.stages["kernels"] = self.stages.get("kernels", 0.0) + seconds
            case ev.FrameSkipped(reason=reason):
                self.failure = "FrameSkipped", reason
            case ev.FrameEnded(error=error) if error:
                kind, _, text = error.partition(": ")
                self.failure = kind, text

    def facts(self, seconds: float) -> dict[str, Json]:
        """The fields of the record."""
        frame = self.piece.frame
        failed_at: Location | None = None
        if self.failure is not None:
            failed_at = self.broken[-1].user_stack[-1] if self.broken and self.broken[-1].user_stack else frame
        return {
            "compile_id": f"{self.piece.number}/{self.piece.version}",
            "co_name": frame.function,
            "co_filename": frame.filename,
            "co_firstlineno": frame.line,
            "cache_size": self.piece.version,
            "accumulated_cache_size": self.piece.version,
            "guard_count": self.guards,
            "shape_env_guard_count": self.symbols,
            "graph_op_count": self.operations,
            "graph_node_count": self.operations + self.inputs,
            "graph_input_count": self.inputs,
            "start_time": self.start,
            "entire_frame_compile_time_s": seconds,
            "backend_compile_time_s": self.stages.get("functionalize", 0.0) + self.stages.get("compile", 0.0),
            "inductor_compile_time_s": self.stages.get("compile", 0.0),
            "code_gen_time_s": self.stages.get("kernels", 0.0),
            "fail_type": None if self.failure is None else self.failure[0],
            "fail_reason": None if self.failure is None else self.failure[1],
            "fail_user_frame_filename": None if failed_at is None else failed_at.filename,
            "fail_user_frame_lineno": None if failed_at is None else failed_at.line,
            "non_compliant_ops": sorted(set(self.fallbacks)),
            "compliant_custom_ops": [],
            "restart_reasons": [event.reason for event in self.broken],
            "dynamo_time_before_restart_s": 0.0,
        }
