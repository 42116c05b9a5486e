"""Files that tools write beside a program: what goes wrong there is said once, and the program goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from onegraph.base.events import Event

LOGGER = logging.getLogger("onegraph")
FAILED = "%s is not written any further: %s"


class Careful:
    """A subscriber that ends with its first failure.

    Args:
        what: what it writes, for the warning.
        note: the subscriber.
    """

    def __init__(self, what: str, note: Callable[[Event], None]) -> None:
        self._what = what
        self._note = note
        self._failed = False

    def note(self, event: Event) -> None:
        """Subscriber."""
        if self._failed:
            return
        try:
            self._note(event)
        except Exception as error:
            self._failed = True
            LOGGER.warning(FAILED, self._what, f"{type(error).__name__}: {error}")
