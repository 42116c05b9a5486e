"""torch's own logging, which `TORCH_LOGS` and `torch._logging.set_logs` switch on and off."""

from __future__ import annotations

import logging

from onegraph.torchlib.private import LOGS


def artifact_logger(parent: str, artifact: str) -> logging.Logger | None:
    """The logger of an artifact such as 'graph_breaks', below the logger `parent`; None if torch does not know it.

    Its level follows what is asked for, at import and later: torch configures all loggers of an artifact alike.
    """
    if not LOGS.is_there or artifact not in LOGS.registry.artifact_names:
        return None
    logger: logging.Logger = LOGS.logger(f"{parent}.onegraph", artifact)
    return logger


def stage_logger(parent: str) -> logging.Logger:
    """The logger of a stage, below one of torch's: it has the level that is set for that."""
    return logging.getLogger(f"{parent}.onegraph")


def chosen_artifacts() -> frozenset[str]:
    """The artifacts that are asked for by name."""
    return frozenset(LOGS.state().artifact_names) if LOGS.is_there else frozenset()
