"""`ONEGRAPH_INSTALL=1`: `onegraph.install()` in every process that imports torch, for programs that are not edited.

torch itself calls this, at the end of its own import: it calls what packages name in the group `torch.backends` of
their entry points. So a process that does not import torch has nothing to do with it, and no code of ours runs when
Python starts. Where the variable is not set, the package and this module are all that is loaded.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module

VARIABLE = "ONEGRAPH_INSTALL"
LOGGER = logging.getLogger("onegraph")
TOO_EARLY = (
    "%s does nothing in this process: %s was imported before torch; `import torch` above it lets onegraph install"
)
#: The command imports torch before all of onegraph that needs torch.
COMMAND = "onegraph.tools.cli"


def autoload() -> None:
    """Install onegraph if the variable says so. The configuration is slow to load: it is asked where it is set.

    Raises:
        InvalidArgument: for a value of the variable that says neither yes nor no.
    """
    if not os.environ.get(VARIABLE) or not import_module("onegraph.base.config").is_on(VARIABLE):
        return
    if first := half_imported():
        LOGGER.warning(TOO_EARLY, VARIABLE, first)
    else:
        sys.modules["onegraph"].install()


def half_imported() -> str:
    """A module of ours whose import has led to that of torch, and cannot be used yet; "" if there is none."""
    ours = [(name, module) for name, module in list(sys.modules.items()) if name.startswith("onegraph.")]
    waiting = (name for name, module in ours if getattr(module.__spec__, "_initializing", False))
    return next((name for name in waiting if name != COMMAND), "")
