"""What torch's own decorators and context managers say to the process: looked at before anything is traced.

Nothing of torch's compiler is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from onegraph import _C
from onegraph.capture.directives.function_marks import SAID

DECORATORS = "torch._dynamo.decorators"
EVAL_FRAME = "torch._dynamo.eval_frame"
LOCAL = "<locals>"
ERROR_MANAGER = "ErrorOnGraphBreakDecoratorContextManager"
CONFIG_MANAGER = "DynamoConfigPatchProxy"
#: The tables of functions that torch's compiler knows by identity.
TABLES = ("_allowed_callable_ids", "_disallowed_callable_ids", "_nonstrict_trace_callable_ids")


def keeps_settings(manager: Any) -> bool:
    """Before torch 2.12 a manager keeps what was set before in one place, later in a list."""
    return isinstance(getattr(manager, "prev_error_on_graph_break", None), list)


def enter_error_on_graph_break(manager: Any) -> None:
    before = _C.exchange_setting("error_on_graph_break", manager.error_on_graph_break)
    if keeps_settings(manager):
        manager.prev_error_on_graph_break.append(before)
    else:
        manager.prev_error_on_graph_break = before


def leave_error_on_graph_break(manager: Any, *exception: object) -> None:
    before = manager.prev_error_on_graph_break
    _C.exchange_setting("error_on_graph_break", before.pop() if keeps_settings(manager) else before)


def enter_config_patch(manager: Any) -> None:
    """`torch._dynamo.patch_dynamo_config`: of what it changes, nested graph breaks mean something to us."""
    if manager.config_patch.changes.get("nested_graph_breaks") is False:
        _C.exchange_setting("nested_graph_breaks", False)


def leave_config_patch(manager: Any, *exception: object) -> None:
    if manager.config_patch.changes.get("nested_graph_breaks") is False:
        _C.exchange_setting("nested_graph_breaks", None)


def known_by_identity() -> dict[int, str]:
    """The functions that torch's compiler knows by identity, and the table that each is in."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    decorators = sys.modules.get(DECORATORS)
    if rules is None or decorators is None:
        return {}
    known: dict[int, str] = {}
    for table in TABLES:
        known |= dict.fromkeys(getattr(rules, table).function_ids or (), table)
    for name in ("graph_break", "skip_frame", "step_unsupported"):
        known.pop(id(getattr(decorators, name)), None)
    return known


def said() -> tuple[int, int]:
    """A digest of what was said of single functions, in both spellings: what was compiled before it changed is old."""
    return SAID.times, hash(frozenset(known_by_identity()))


def foreign_stance() -> str:
    """What `torch.compiler.set_stance` has said."""
    module = sys.modules.get(EVAL_FRAME)
    return str(module._stance.stance) if module is not None else "default"
