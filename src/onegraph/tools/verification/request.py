"""What `onegraph.verify` and `onegraph.minify` are asked for: a target, and how it is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onegraph.backend_registry import Backend, find_backend
from onegraph.base.arguments import check_dynamic, check_options, check_suspending, check_switch, check_target
from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.base.settings import Layers
from onegraph.compile import written


@dataclass(frozen=True, slots=True)
class Request:
    """`function` is what is compiled, with these arguments of `compile`; `file` is where a program is written."""

    function: Callable[..., Any]
    keywords: Mapping[str, Any]
    config: Config
    file: Path | None

    @classmethod
    def checked(
        cls,
        target: Callable[..., Any],
        backend: str | Backend | None,
        options: Mapping[str, Any] | None,
        dynamic: bool | None,
        fullgraph: bool,
        file: str | os.PathLike[str] | None,
    ) -> Request:
        """The request.

        Raises:
            InvalidArgument: for what cannot be compiled, and settings that are not accepted.
        """
        check_target(target)
        check_suspending(target)
        check_dynamic(dynamic)
        check_switch("fullgraph", fullgraph)
        if not isinstance(file, str | os.PathLike | None):
            raise InvalidArgument(f"'file' expects a path or None, got {file!r}")
        config = Layers(Config.from_environment(), check_options(None, options)).now()
        chosen = config.backend if backend is None else backend
        find_backend(chosen)
        keywords = {"backend": chosen, "options": dict(options or {}), "dynamic": dynamic, "fullgraph": fullgraph}
        return cls(written(target), keywords, config, None if file is None else Path(file))
