"""Events under torch's own loggers, as far as `TORCH_LOGS` or `torch._logging.set_logs` switch them on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from onegraph.base.events import Event, Events
from onegraph.base.settings import LOGGER
from onegraph.tools.logs import render
from onegraph.tools.torch_log_names import ROUTES, SILENT
from onegraph.torchlib.logs import artifact_logger, chosen_artifacts, stage_logger

NOTHING_TO_SAY = "TORCH_LOGS names %s, under which onegraph says nothing: %s"


def attach_torch(events: Events) -> Callable[[], None]:
    """Give events to the loggers of torch that match them; the result ends it.

    An event is said once: under the first of its artifacts that is switched on, or by the logger of its stage from its
    level on. What is switched on and has nothing to say here is told once.
    """
    loggers = {channel: loggers_of(channel) for channel in ROUTES}
    told: set[str] = set()

    def show(event: Event) -> None:
        for name in chosen_artifacts() & SILENT.keys() - told:
            told.add(name)
            LOGGER.warning(NOTHING_TO_SAY, name, SILENT[name])
        for logger, level in loggers.get(event.channel, ()):
            if logger.isEnabledFor(level) and logger.hasHandlers():  # an artifact that is off has none
                logger.log(level, "%s", render(event))
                return

    return events.subscribe(show)


def loggers_of(channel: str) -> list[tuple[logging.Logger, int]]:
    """The loggers of a channel with the level of what is said there."""
    route = ROUTES[channel]
    artifacts = (artifact_logger(route.logger, artifact) for artifact in route.artifacts)
    found = [(logger, logging.DEBUG) for logger in artifacts if logger is not None]
    return [*found, (stage_logger(route.logger), route.level)]
