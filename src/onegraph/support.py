"""Where onegraph runs: which Pythons, builds and releases of torch. Anywhere else programs run as they are written."""

from __future__ import annotations

import logging
import platform
import sysconfig
from functools import cache
from importlib import import_module
from importlib.util import find_spec

LOGGER = logging.getLogger("onegraph")

PYTHONS = ((3, 11), (3, 14))
TORCHES = ((2, 11), (2, 15))

#: What is said once in a process; `%s` is a reason.
SENTENCE = "onegraph %s: what is given to onegraph.compile runs eagerly, as it is written"
NEWER = (
    "torch %s is newer than what this release of onegraph was tested with (torch %s): "
    "results are eager's all the same, but a newer onegraph may know more of it"
)


@cache
def problem() -> str:
    """Why onegraph cannot run in this process, as a sentence that has been logged; "" where it can.

    Raises:
        ImportError: torch cannot be imported.
    """
    reason = wrong_python() or wrong_extension() or wrong_torch() or wrong_library()
    if not reason:
        return ""
    LOGGER.warning(SENTENCE, reason)
    return SENTENCE % reason


def wrong_python() -> str:
    name = platform.python_implementation()
    major, minor, _ = platform.python_version_tuple()
    version = int(major), int(minor)
    first, last = PYTHONS
    if name != "CPython" or not first <= version <= last:
        return f"needs CPython {spelled(PYTHONS)}, and this is {name} {spelled((version,))}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "needs a Python with the global interpreter lock, and this one is free-threaded"
    return ""


def wrong_extension() -> str:
    try:
        import_module("onegraph._C")
    except ImportError as error:
        if "subinterpreter" in str(error):
            return "runs in the main interpreter of a process, and this is a subinterpreter"
        return (
            "was installed without its C extension, which needs a C compiler (gcc or clang) where onegraph is built "
            f"from source; with one, `pip install --force-reinstall onegraph` builds it ({error})"
        )
    return ""


def wrong_torch() -> str:
    torch = import_module("torch")
    release = torch.torch_version.TorchVersion(torch.__version__)
    first, last = TORCHES
    if release < first:
        return f"needs torch {spelled(TORCHES)}, and this is torch {release}"
    try:
        import_module("onegraph.torchlib.private")
    except Exception as error:  # whatever it is that this torch has no longer
        return f"does not know torch {release} (it knows torch {spelled(TORCHES)}; {error})"
    if release >= (last[0], last[1] + 1):
        LOGGER.warning(NEWER, release, spelled(TORCHES))
    return ""


def wrong_library() -> str:
    """It is imported when kernels are loaded."""
    if find_spec("llvmlite") is None:
        return "needs llvmlite, which `pip install llvmlite` installs"
    return ""


def spelled(versions: tuple[tuple[int, ...], ...]) -> str:
    return " to ".join(".".join(map(str, version)) for version in versions)
