"""A graph on which a backend differs from eager mode, as a program that shows it."""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.backend_registry import BACKENDS, packages
from onegraph.base.dataclass import dataclass
from onegraph.tools.verification.value_text import as_text

PROGRAM = '''"""A graph on which onegraph {failure}.

Exits with 1 while it does, and with 0 otherwise.
"""

from __future__ import annotations

import sys
{imports}

import onegraph

{definitions}


{code}

def as_given(value):
    """What has a history is given one again: it may be written to."""
    has_history = isinstance(value, torch.Tensor) and value.requires_grad and not isinstance(value, torch.nn.Parameter)
    return value.clone() if has_history else value


settings = {settings}
with torch.set_grad_enabled({gradients}):
    found = onegraph.verify(forward, **settings)(*map(as_given, inputs))
print(found)
sys.exit(0 if found else 1)
'''
CONSTANTS = '''

class Constants:
    """The tensors that the graph has in it."""


self = Constants()
vars(self).update(constants)'''
LOADED = """saved = torch.load(Path(__file__).with_suffix(".pt"), weights_only=True)
inputs, constants = saved["inputs"], saved["constants"]"""
#: A graph is compiled as it is, whatever the environment says.
OPTIONS = {"smallest_recorded_graph": 0, "raise_compiler_errors": True, "repro_after": None}


@dataclass(frozen=True, slots=True)
class Replay:
    """What a file needs to show a difference: the graph, its inputs, and how it is compiled.

    `failure` is what the program says of it.
    """

    file: Path | None
    keywords: Mapping[str, Any]
    module: GraphModule
    inputs: Sequence[Any]
    gradients: bool
    failure: str = "differs from eager mode"

    def write(self) -> Path | None:
        """Write the program, and its tensors beside it with the suffix `.pt`, unless they are small.

        None if the graph is not only code, or the backend is one that no program can name.
        """
        code = self.module.graph.python_code("self")
        source = re.sub(r";  [\w =]+ = None$", "", code.src.strip(), flags=re.MULTILINE)  # which lets go of values
        imports = imports_of(source, code.globals)
        backend = backend_text(self.keywords["backend"])
        if imports is None or backend is None:
            return None
        file = self.file or Path(tempfile.mkdtemp(prefix="onegraph-verify-"), "replay.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        constants = {name: value.detach() for name, value in self._constants().items()}
        saved = as_text(list(self.inputs), constants)
        if saved is None:
            torch.save({"inputs": list(self.inputs), "constants": constants}, file.with_suffix(".pt"))
            saved, imports = LOADED, [*imports, "from pathlib import Path"]
        lines = {*imports, *backend.imports}
        definitions = [saved, *([CONSTANTS] if constants else []), *filter(None, [backend.definition])]
        file.write_text(
            PROGRAM.format(
                failure=self.failure.replace("\\", "\\\\").replace('"', "'"),
                imports="\n".join(sorted(lines, key=lambda line: (line.startswith("from"), line))),
                definitions="\n".join(definitions),
                code=source.replace("(self, ", "(").replace("(self)", "()") + "\n",
                gradients=self.gradients,
                settings=self._settings(backend),
            )
        )
        return file

    def _settings(self, backend: BackendText) -> str:
        """The arguments of `verify`, as text."""
        settings = {name: value for name, value in self.keywords.items() if value not in (None, False)}
        settings["options"] = {**self.keywords["options"], **OPTIONS}
        if any(type(each) is int for each in self.inputs):
            settings["dynamic"] = True
        texts = {name: repr(value) for name, value in settings.items()} | {"backend": backend.name}
        return "{" + ", ".join(f"{name!r}: {text}" for name, text in texts.items()) + "}"

    def _constants(self) -> dict[str, torch.Tensor]:
        names = {str(node.target) for node in self.module.graph.nodes if node.op == "get_attr"}
        found: dict[str, object] = {name: reduce(getattr, name.split("."), self.module) for name in names}
        return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


@dataclass(frozen=True, slots=True)
class BackendText:
    """An expression for a backend, and what must stand before it."""

    name: str
    imports: tuple[str, ...] = ()
    definition: str = ""


def backend_text(backend: str | Callable[..., Any]) -> BackendText | None:
    """How a program names a backend; a function by its own text, or else by its module. None if it cannot."""
    if isinstance(backend, str):
        return BackendText(repr(backend)) if backend in {*BACKENDS, *packages()} else None
    if not isinstance(backend, FunctionType):
        return None
    name = backend.__name__
    if backend.__closure__ is None and name.isidentifier():
        try:
            definition = textwrap.dedent(inspect.getsource(backend)).rstrip()
        except (OSError, TypeError):
            definition = ""
        names = {each: value for each, value in backend.__globals__.items() if each != name}
        imports = imports_of(definition, names) if definition.startswith("def ") else None
        if imports is not None:
            return BackendText(name, tuple(imports), f"\n\n{definition}")
    line = import_of(name, backend)
    if not line or backend.__module__ == "__main__":
        return None
    folder = Path(inspect.getfile(backend)).parents[backend.__module__.count(".")]
    return BackendText(name, (), f"sys.path.append({str(folder)!r})\n{line}")


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
    if module is None or module == "__main__" or getattr(sys.modules.get(module), str(qualname), None) is not value:
        return ""
    return f"from {module} import {qualname}" + ("" if qualname == name else f" as {name}")
