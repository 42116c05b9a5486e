"""torch's own logging, which `TORCH_LOGS` and `torch._logging.set_logs` switch on and off."""

from __future__ import annotations

import logging

from torch._logging._internal import getArtifactLogger, log_registry


def artifact_logger(parent: str, artifact: str) -> logging.Logger | None:
    """The logger of an artifact such as 'graph_breaks', below the logger `parent`; None if torch does not know it.

    Its level follows what is asked for, at import and later: torch configures all loggers of an artifact alike.
    """
    if artifact not in log_registry.artifact_names:
        return None
    return getArtifactLogger(f"{parent}.onegraph", artifact)
