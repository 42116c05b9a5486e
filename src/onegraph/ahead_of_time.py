"""Compiled programs in files: what a function or module was called with is not traced and compiled again elsewhere.

    onegraph.save(compiled, "model.og")             where it has been called with all that is to be in the file
    model = onegraph.load("model.og", model)        in another process, or on another machine

A file has the captures of all frames and the code of their kernels, as the cache on disk has them, and what they were
made with. It has no weights and no inputs.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from types import FunctionType, MethodType
from typing import Any, TypeVar

import numpy
import torch

from onegraph.base.arguments import check_target
from onegraph.base.bundle import Artifact, Bundle, packed, texts_of, unpacked
from onegraph.base.codec import Unkept
from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import cache_of
from onegraph.base.errors import InvalidArgument, LoadError, SaveError
from onegraph.base.events import Location
from onegraph.base.settings import config as settings
from onegraph.capture.captured import Skipped
from onegraph.capture.directives.hatches import beside
from onegraph.capture.guards.guard import Guard
from onegraph.capture.guards.source import Arg, root_of
from onegraph.capture.hook import Region, Version
from onegraph.capture.kept.contents import code_digest
from onegraph.capture.kept.entries import check_functions, made_of
from onegraph.capture.kept.installed import digests, flags
from onegraph.capture.kept.rows import Stale
from onegraph.capture.kept.saved import Saved
from onegraph.capture.kept.store import ASIDE, DAMAGED, settings_of
from onegraph.compile import CompiledModule, compile, told, written
from onegraph.compiler.made_with import Needs, check_facts, needs_of, versions
from onegraph.reloading import objects_of, reloaded

NAME = b"onegraph program "
MAGIC = NAME + b"1\n"
F = TypeVar("F", bound=Callable[..., Any])
NOT_COMPILED = "onegraph.save expects what onegraph.compile has given, got {}"
CHANGED = "that were written since they were imported"
NOT_CALLED = "{} has not been called yet: call it with each kind of input that is to be in the file, then save it"


@dataclass(frozen=True, slots=True)
class Entries:
    """What is in a file, by name."""

    contents: Mapping[str, bytes]

    def load(self, key: str) -> bytes | None:
        return self.contents.get(key)

    def store(self, key: str, content: bytes) -> bool:
        return False


@beside
def save(compiled: Any, path: str | Path, *, strict: bool = True) -> None:
    """Write what a compiled function or module was called with to a file, for `load`.

    Args:
        compiled: what `onegraph.compile` has given. It has been called with all kinds of inputs that are to be in the
            file, in the modes (gradients, autocast) that it is to run in; of a training step, with its backward.
        path: the file.
        strict: False leaves out the frames that cannot be kept: these are captured anew where the file is loaded.

    Raises:
        InvalidArgument: for what is not compiled.
        SaveError: nothing was called yet; a frame cannot be kept, or is not on disk any more.
    """
    region, target = region_of(compiled), written(compiled)
    name = program_name(target)
    config = region.cx.config
    captures: list[Piece] = []
    problems: list[str] = []
    for where, version in region.compiled():
        try:
            captures.append(piece_of(where, version, config, region.saved))
        except Unkept as why:
            problems.append(f"{where}: {why}")
    if problems and (strict or not captures):
        head = f"{name} cannot be saved" + (" as a whole; strict=False leaves these out:" if captures else ":")
        raise SaveError("\n  ".join([head, *problems]))
    if not captures:
        raise SaveError(NOT_CALLED.format(name))
    about = {
        "made with": made_here(config),
        "needs": dataclasses.asdict(needs_of(config.target_cpu)),
        "program": {"name": name, "code": program_code(target), "parameters": parameters_of(target)},
        "settings": settings_of(config),
        "keywords": keywords_of(compiled),
        "captures": [[each.frame, each.key, each.where, *each.inputs] for each in captures],
        "eager": [[frame, why.reason, why.again, why.whole] for frame, why in region.eager().items()],
    }
    artifacts = {each.key: Artifact("captures", each.key, each.data) for each in captures}
    for each in captures:
        artifacts |= {key: Artifact("objects", key, code) for key, code in each.code.items()}
    write(Path(path), packed(MAGIC, Bundle(about, tuple(artifacts.values()))))


@beside
def load(path: str | Path, target: F) -> F:
    """Compile a function or module with what `save` has written: calls that were saved are not traced, and LLVM
    compiles nothing for them.

    Calls of other kinds are compiled as ever, and a line of the log says why nothing in the file fits; under
    `set_stance("fail_on_recompile")` they are an error, under `"eager_on_recompile"` they run as they are written.

    Args:
        path: the file. Load only what you have saved: the code in it is run.
        target: the function or module that was saved, with any weights.

    Returns:
        What `onegraph.compile` gives for the target, with the settings of what was saved.

    Raises:
        InvalidArgument: for what cannot be compiled.
        LoadError: the file is none of `save`, or damaged; or this program, its settings, the versions of onegraph,
            Python, torch and LLVM, or the processor are not those that it was made for. The message says what differs.
    """
    target = written(target)
    check_target(target)
    bundle = opened(path)
    try:
        check_facts(texts_of(bundle.about, "made with"), made_here(settings.over(Config.from_environment())))
        if lacking := needs_in(bundle).missing():
            raise ValueError(lacking)
        check_program(bundle.about, target)
        contents = {each.key: each.content for each in bundle.artifacts}
        captures: dict[str, list[str]] = {}
        for frame, key, *_ in bundle.about["captures"]:
            check_functions(contents[key])
            captures.setdefault(frame, []).append(key)
        eager = {frame: Skipped(*fields) for frame, *fields in bundle.about["eager"]}
        made_for = texts_of(bundle.about, "settings")
        keywords = {**bundle.about["keywords"]}
        keywords["options"] = {name: tupled(value) for name, value in (keywords["options"] or {}).items()}
    except (ValueError, Stale) as why:
        raise LoadError(f"{path} cannot be loaded here: {why}") from None
    except DAMAGED as error:
        raise LoadError(f"{path} says nothing that makes sense: {type(error).__name__}: {error}") from None
    compiled: Any = compile(target, **keywords)
    region = region_of(compiled)
    region.saved = Saved(str(path), captures, eager, Entries(contents), made_for, reloaded)
    for name, now in settings_of(region.cx.config).items():
        if made_for.get(name) != now:
            raise LoadError(f"{path} cannot be loaded here: the option {name} was {made_for.get(name)}, is {now}")
    return compiled  # type: ignore[no-any-return]


# ---- what is saved ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """The entry of a capture, with the code of its kernels, and for people the frame and the tensors that it is for."""

    frame: str
    key: str
    data: bytes
    code: Mapping[str, bytes]
    where: str
    inputs: tuple[str, ...]


def piece_of(where: Location, version: Version, config: Config, saved: Saved | None) -> Piece:
    """Raises Unkept where something of a compiled version is neither on disk nor in the file that it is from."""
    kept, disk = version.made.kept, cache_of(version.config, "objects")
    if isinstance(kept, str):
        raise Unkept(kept)
    if settings_of(version.config) != settings_of(config):
        raise Unkept("it was captured with other settings than those of now")
    data = kept.load()
    made = None if data is None else made_of(data)
    names = set() if made is None else objects_of(made)
    stores = [store for store in (None if saved is None else saved.entries, disk) if store is not None]
    code = {key: found for key in names for store in stores if (found := store.load(key)) is not None}
    if data is None or names > code.keys():
        raise Unkept("it is not in the cache any more: compile and call it again")
    inputs = [str(why) for why in version.guards.explanations if isinstance(why, Guard) and is_of_input(why)]
    return Piece(kept.frame, kept.name, data, code, str(where), tuple(dict.fromkeys(inputs)))


def is_of_input(guard: Guard) -> bool:
    return guard.kind == "tensor" and isinstance(root_of(guard.source), Arg)


def region_of(compiled: Any) -> Region:
    """What was compiled of a function or module.

    Raises:
        InvalidArgument: it is not compiled.
    """
    found = compiled.__func__ if type(compiled) is MethodType else compiled
    region = getattr(type(found) if isinstance(found, CompiledModule) else found, "onegraph_region", None)
    if not isinstance(region, Region):
        raise InvalidArgument(NOT_COMPILED.format(type(compiled).__qualname__))
    return region


def keywords_of(compiled: Any) -> dict[str, Any]:
    """What `compile` was told besides the target.

    Raises:
        SaveError: a file cannot hold some of it.
    """
    keywords = told(compiled)
    keywords["options"] = {name: value for name, value in (keywords["options"] or {}).items() if name not in ASIDE}
    for name, value in {**keywords, **keywords["options"]}.items():
        try:
            json.dumps(value)
        except TypeError:
            raise SaveError(f"a file cannot hold what compile was told of {name}: {value!r}") from None
    return keywords


def tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def made_here(config: Config) -> dict[str, str]:
    """What a file depends on besides the program and the processor: versions, flags, and what sources hold, as captures
    in the cache on disk do."""
    own, of_torch = (each or CHANGED for each in digests(cache_of(config, "sources")))
    kept = {"files of onegraph": own, "files of torch": of_torch, "flags of Python": f"{flags()}"}
    return {**versions(), "NumPy": numpy.__version__, **kept}


# ---- what it is of ---------------------------------------------------------------------------------------------------


def program_name(target: Any) -> str:
    function = target if isinstance(target, FunctionType | MethodType) else type(target)
    return f"{function.__module__}.{function.__qualname__}"


def program_code(target: Any) -> str:
    """What the code of a function, or of the method that a call of an object runs, does."""
    if isinstance(target, torch.nn.Module):
        target = target.forward
    elif not isinstance(target, FunctionType | MethodType):
        target = type(target).__call__
    code = getattr(target, "__code__", None)
    return "" if code is None else code_digest(code)


def parameters_of(target: Any) -> list[list[Any]]:
    """The parameters and buffers of a module, without what is in them."""
    if not isinstance(target, torch.nn.Module):
        return []
    held = (*target.named_parameters(), *target.named_buffers())
    return [[name, str(tensor.dtype), [*tensor.shape]] for name, tensor in held]


def check_program(about: Mapping[str, Any], target: Any) -> None:
    """Raise ValueError where a file is of another program."""
    was, name = about["program"], program_name(target)
    if was["name"] != name:
        raise ValueError(f"it is of {was['name']}, and this is {name}")
    if was["code"] != program_code(target):
        raise ValueError(f"the code of {name} is another than it was")
    before = {each: (dtype, tuple(shape)) for each, dtype, shape in was["parameters"]}
    now = {each: (dtype, tuple(shape)) for each, dtype, shape in parameters_of(target)}
    for each in (*before, *now):
        if before.get(each) != now.get(each):
            raise ValueError(f"{each} was {tensor_text(before.get(each))}, is {tensor_text(now.get(each))}")


def tensor_text(found: tuple[str, tuple[int, ...]] | None) -> str:
    return "not there" if found is None else f"{found[0].removeprefix('torch.')} {[*found[1]]}"


# ---- the file --------------------------------------------------------------------------------------------------------


def write(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all: what stood there stays until it is."""
    new = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        new.write_bytes(data)
        os.replace(new, path)
    except BaseException:  # a full disk, an interrupt
        new.unlink(missing_ok=True)
        raise


def opened(path: str | Path) -> Bundle:
    """What is in a file.

    Raises:
        LoadError: it is none of `save`, or damaged.
    """
    try:
        return unpacked(MAGIC, Path(path).read_bytes())
    except TypeError:
        raise InvalidArgument(f"onegraph.load expects the path of a file, got {path!r}") from None
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as why:
        raise LoadError(f"{path} is no file of onegraph.save: {why}") from None


def needs_in(bundle: Bundle) -> Needs:
    """What a machine must have for the code in a file."""
    needs = bundle.about["needs"]
    features = tuple(map(str, needs["features"]))
    return Needs(str(needs["system"]), str(needs["architecture"]), str(needs["processor"]), features)
