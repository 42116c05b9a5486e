"""A graph on which a backend differs from eager mode, as a program that shows it."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.backend_registry import OURS, packages
from onegraph.base.dataclass import dataclass

PROGRAM = '''"""A graph on which onegraph differs from eager mode. Exits with 1 while it does, and with 0 otherwise."""

import sys
from pathlib import Path

{imports}

import onegraph

saved = torch.load(Path(__file__).with_suffix(".pt"), weights_only=True)


class Constants:
    """The tensors that the graph has in it."""


self = Constants()
vars(self).update(saved["constants"])


{code}

def as_given(value):
    """What has a history is given one again: it may be written to."""
    has_history = isinstance(value, torch.Tensor) and value.requires_grad and not isinstance(value, torch.nn.Parameter)
    return value.clone() if has_history else value


settings = {settings}
with torch.set_grad_enabled({gradients}):
    found = onegraph.verify(forward, **settings)(*map(as_given, saved["inputs"]))
print(found)
sys.exit(0 if found else 1)
'''


@dataclass(frozen=True, slots=True)
class Replay:
    """What a file needs to show a difference: the graph, its inputs, and how it is compiled."""

    file: Path | None
    keywords: Mapping[str, Any]
    module: GraphModule
    inputs: Sequence[Any]
    gradients: bool

    def write(self) -> Path | None:
        """Write the program, and its tensors beside it with the suffix `.pt`.

        None if the graph is not only code, or the backend is one of the program.
        """
        settings = {name: value for name, value in self.keywords.items() if value not in (None, False)}
        settings["options"] = {**self.keywords["options"], "smallest_recorded_graph": 0}
        if any(type(each) is int for each in self.inputs):
            settings["dynamic"] = True
        code = self.module.graph.python_code("self")
        source = re.sub(r";  [\w =]+ = None$", "", code.src.strip(), flags=re.MULTILINE)  # which lets go of values
        imports = imports_of(source, code.globals)
        backend = self.keywords["backend"]
        if imports is None or not isinstance(backend, str) or backend not in {*OURS, *packages()}:
            return None
        file = self.file or Path(tempfile.mkdtemp(prefix="onegraph-verify-"), "replay.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        constants = {name: value.detach() for name, value in self._constants().items()}
        torch.save({"inputs": list(self.inputs), "constants": constants}, file.with_suffix(".pt"))
        file.write_text(
            PROGRAM.format(
                imports="\n".join(imports),
                code=source.replace("(self, ", "(").replace("(self)", "()") + "\n",
                gradients=self.gradients,
                settings=settings,
            )
        )
        return file

    def _constants(self) -> dict[str, torch.Tensor]:
        names = {str(node.target) for node in self.module.graph.nodes if node.op == "get_attr"}
        found: dict[str, object] = {name: reduce(getattr, name.split("."), self.module) for name in names}
        return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def imports_of(code: str, names: Mapping[str, Any]) -> list[str] | None:
    """The statements that bind the global names in the code; None if a value is not found by its name."""
    used = {name: value for name, value in names.items() if re.search(rf"\b{name}\b", code)}
    lines = {"torch": "import torch"} | {name: import_of(name, value) for name, value in used.items()}
    found = [line for line in lines.values() if line]
    return sorted(found, key=lambda line: (line.startswith("from"), line)) if len(found) == len(lines) else None


def import_of(name: str, value: Any) -> str:
    """The statement that binds one name; empty if there is none."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")
    if isinstance(value, float):  # inf, nan
        return f"from math import {name}"
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module is None or getattr(sys.modules.get(module), str(qualname), None) is not value:
        return ""
    return f"from {module} import {qualname}" + ("" if qualname == name else f" as {name}")
