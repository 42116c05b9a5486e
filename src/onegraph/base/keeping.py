"""What a backend does to have its graphs on disk, beside the captures that they are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass

#: Makes what runs of the bytes that a backend has put into `Context.made`; None where its code is gone. The last
#: argument is called when that turns out to need the graph, which is not kept.
Reload = Callable[[bytes, Context, Callable[[], object]], Callable[..., Any] | None]


@dataclass(frozen=True, slots=True)
class Keeping:
    """`identity` says what the code of graphs depends on besides the program."""

    identity: Callable[[Config], str]
    reload: Reload
