"""Exported programs in files: a zip archive of `program.json` and `weights.pt`.

Nodes are written with the names of what they call, which is looked up in torch when the file is read. Reading runs no
code; calling the program calls whatever functions of torch the file names, so it should come from somebody you trust.
"""

from __future__ import annotations

import builtins
import importlib
import io
import json
import math
import operator
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from onegraph.base.errors import InvalidArgument
from onegraph.ir.loop import EXPECTED
from onegraph.torchlib.data_sizes import is_expected
from onegraph.torchlib.private import OpOverload, treespec_dumps, treespec_loads

FORMAT = "onegraph exported program 1"
ROOTS = ("torch", "_operator", "math", "builtins")
OWN = {"_operator": operator, "math": math, "builtins": builtins}
#: Values of torch that nodes have as arguments, and what they are made of again.
NAMED: dict[str, type] = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


def write(program: Any, path: Path) -> None:
    weights = io.BytesIO()
    module = program.graph_module
    held = {each.target: operator.attrgetter(each.target)(module) for each in module.graph.find_nodes(op="get_attr")}
    torch.save(
        {name: value.detach() if isinstance(value, torch.nn.Parameter) else value for name, value in held.items()},
        weights,
    )
    trained = {name: value.requires_grad for name, value in held.items() if isinstance(value, torch.nn.Parameter)}
    body = {
        "format": FORMAT,
        "nodes": [written_node(node) for node in module.graph.nodes],
        "parameters": trained,
        "inputs": [record(each) for each in program.inputs],
        "results": [record_result(each) for each in program.results],
        "conditions": program.conditions,
        "guards": program.guards,
        "keywords": program.keywords,
        "in_spec": spec_text(program.in_spec),
        "out_spec": spec_text(program.out_spec),
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("program.json", json.dumps(body, indent=1))
        archive.writestr("weights.pt", weights.getvalue())


def read(path: Path, kinds: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """The fields of a program; `kinds` makes its inputs and sizes."""
    try:
        with zipfile.ZipFile(path) as archive:
            body = json.loads(archive.read("program.json"))
            weights = torch.load(io.BytesIO(archive.read("weights.pt")), weights_only=True)
        if body["format"] != FORMAT:
            raise InvalidArgument(f"{path} has the format {body['format']!r}, expected {FORMAT!r}")
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise InvalidArgument(f"{path} is no exported program: {type(error).__name__}: {error}") from None
    weights |= {name: torch.nn.Parameter(weights[name], trained) for name, trained in body["parameters"].items()}
    return {
        "graph_module": module_over(weights, read_graph(body["nodes"])),
        "inputs": tuple(restored(each, kinds) for each in body["inputs"]),
        "results": tuple(restored_result(each, kinds["size"]) for each in body["results"]),
        "conditions": tuple(body["conditions"]),
        "guards": tuple(body["guards"]),
        "keywords": tuple(body["keywords"]),
        "in_spec": treespec_loads(body["in_spec"]),
        "out_spec": treespec_loads(body["out_spec"]),
    }


def module_over(held: dict[str, Any], graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A module of a graph, with the tensors that it reads, by their qualified names."""
    return torch.fx.GraphModule(held, graph, "ExportedGraph")


def spec_text(spec: Any) -> str:
    try:
        return treespec_dumps(spec)
    except NotImplementedError as error:
        raise InvalidArgument(f"the structure {spec} cannot be saved: {error}") from None


# ---- inputs ----------------------------------------------------------------------------------------------------------


def record(given: Any) -> dict[str, Any]:
    kind = "tensor" if hasattr(given, "dtype") else "constant"
    return {"kind": kind} | {item.name: encoded(getattr(given, item.name)) for item in fields(given)}


def restored(record: dict[str, Any], kinds: dict[str, Callable[..., Any]]) -> Any:
    return kinds[record["kind"]](**{name: decoded(value) for name, value in record.items() if name != "kind"})


def record_result(result: Any) -> dict[str, Any]:
    match result:
        case int():
            return {"output": result}
        case (constant,):
            return {"constant": encoded(constant)}
    return {"size": result.text}


def restored_result(record: dict[str, Any], size: Callable[..., Any]) -> Any:
    ((kind, value),) = record.items()
    if kind == "size":
        return size(value)
    return value if kind == "output" else (decoded(value),)


# ---- the graph -------------------------------------------------------------------------------------------------------


def written_node(node: torch.fx.Node) -> dict[str, Any]:
    target = name_of(node.target) if node.op == "call_function" else node.target
    return {
        "name": node.name,
        "op": node.op,
        "target": target,
        "args": encoded(node.args),
        "kwargs": encoded(dict(node.kwargs)),
    }


def read_graph(nodes: list[dict[str, Any]]) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    known: dict[str, torch.fx.Node] = {}
    for each in nodes:
        target = found(each["target"]) if each["op"] == "call_function" else each["target"]
        args, kwargs = decoded(each["args"], known), decoded(each["kwargs"], known)
        known[each["name"]] = graph.create_node(each["op"], target, args, kwargs, each["name"])
    return graph


def name_of(function: Any) -> str:
    """Where a function is found.

    Raises:
        InvalidArgument: for one that is not torch's.
    """
    if isinstance(function, OpOverload):
        return f"torch.ops.{function}"
    if function is is_expected:
        return EXPECTED
    module = getattr(function, "__module__", None) or "torch"
    names = [f"{module}.{getattr(function, '__qualname__', '')}", f"{module}.{getattr(function, '__name__', '')}"]
    names += [f"torch.{getattr(function, '__name__', '')}"]
    for name in names:
        try:
            if found(name) is function:
                return name
        except InvalidArgument:
            continue
    raise InvalidArgument(f"the program calls {function!r}, which a file cannot name: it is no function of torch")


def found(name: str) -> Any:
    """What a name stands for.

    Raises:
        InvalidArgument: for a name that is not torch's, or that this torch does not have.
    """
    if name == EXPECTED:
        return is_expected
    first, *rest = name.split(".")
    if first not in ROOTS:
        raise InvalidArgument(f"{name} is no function of torch")
    value: Any = OWN.get(first, torch)
    for number, part in enumerate(rest):
        if not hasattr(value, part) and isinstance(value, type(torch)):
            try:
                importlib.import_module(".".join((first, *rest[: number + 1])))
            except ImportError:
                raise InvalidArgument(f"this torch has no {name}") from None
        if not hasattr(value, part):
            raise InvalidArgument(f"this torch has no {name}")
        value = getattr(value, part)
    return value


# ---- arguments -------------------------------------------------------------------------------------------------------


def encoded(value: Any) -> Any:
    """An argument of a node as JSON holds it; what JSON has no form for is a dict of one entry."""
    match value:
        case torch.fx.Node():
            return {"node": value.name}
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case complex():
            return {"complex": [value.real.hex(), value.imag.hex()]}
        case list():
            return [encoded(item) for item in value]
        case tuple():
            return {"tuple": [encoded(item) for item in value]}
        case slice():
            return {"slice": [encoded(item) for item in (value.start, value.stop, value.step)]}
        case dict() if all(isinstance(key, str) for key in value):
            return {"dict": {key: encoded(item) for key, item in value.items()}}
        case torch.device():
            return {"device": str(value)}
        case _ if value is Ellipsis:
            return {"ellipsis": True}
    for name, kind in NAMED.items():
        if isinstance(value, kind):
            return {name: str(value).removeprefix("torch.")}
    raise InvalidArgument(f"the program has an argument of type {type(value).__qualname__}, which a file cannot hold")


def decoded(value: Any, nodes: dict[str, torch.fx.Node] | None = None) -> Any:
    if isinstance(value, list):
        return [decoded(item, nodes) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    match kind:
        case "node":
            return (nodes or {})[held]
        case "float":
            return float.fromhex(held)
        case "complex":
            return complex(*map(float.fromhex, held))
        case "tuple":
            return tuple(decoded(item, nodes) for item in held)
        case "slice":
            return slice(*(decoded(item, nodes) for item in held))
        case "dict":
            return {key: decoded(item, nodes) for key, item in held.items()}
        case "device":
            return torch.device(held)
        case "ellipsis":
            return Ellipsis
        case _ if kind in NAMED:
            return getattr(torch, held)
    raise InvalidArgument(f"a program has an argument of the kind {kind!r}, which is not known")
