"""What a user does first, with the onegraph that this Python has installed. The README is the source's.

python .ci/installed.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from importlib.metadata import files, version
from pathlib import Path
from statistics import median

README = Path(__file__).resolve().parents[1] / "README.md"
COMMAND = Path(sysconfig.get_path("scripts")) / "onegraph"
#: Seconds of the processor that `import onegraph` may take where torch is loaded.
IMPORT_LIMIT = 0.1
SAMPLES = 5

EXAMPLE = """
x, y = torch.randn(4, 4), torch.randn(4, 4)
torch.testing.assert_close(f(x, y), torch.softmax(x @ y, -1) * 2)
torch.testing.assert_close(model(x), original(x))
print(onegraph.__version__, onegraph.__file__)
"""
BREAK = """
import torch, onegraph

@onegraph.compile(fullgraph=True)
def f(x):
    print("here")
    return x + 1

try:
    f(torch.ones(2))
except onegraph.GraphBreakError as error:
    print(error)
"""
BACKEND = """
import sys, torch

f = torch.compile(lambda x: x + 1, backend="onegraph")
print(f(torch.ones(2)).tolist(), "onegraph.compiler" in sys.modules)
"""
INSTALL = """
import torch

print(hasattr(torch.compile(lambda x: x), "onegraph_region"))
"""
TIMES = """
import time, torch

start = time.process_time()
import onegraph
imported = time.process_time()
onegraph.compile
print(imported - start, time.process_time() - imported)
"""


def run(program: str, **variables: str) -> str:
    """What a program prints, started where nothing else is. It is a file: capture reads the lines that it names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(program)
        return output([sys.executable, str(path)], **variables)


def output(command: list[str], **variables: str) -> str:
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(what)


def first_example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    before = "import torch\nmodel = original = torch.nn.Linear(4, 4)\n"
    found, file = run(before + blocks[0] + EXAMPLE).split()
    expect(found == version("onegraph"), f"onegraph.__version__ is {found}, and {version('onegraph')} is installed")
    expect(Path(file).is_relative_to(sysconfig.get_path("platlib")), f"onegraph was imported from {file}")
    return f"the README's first example, version {found}"


def command_line() -> str:
    expect("explain" in output([str(COMMAND), "--help"]), "onegraph --help lists no commands")
    return "onegraph --help"


def message_and_page() -> str:
    message = run(BREAK)
    expect('program.py", line 6, in f' in message, f"the message names no line of the program: {message}")
    name, *arguments = message.rpartition("Page: ")[2].split()
    expect(name == "onegraph", f"the message names no command that prints its page: {message}")
    page = output([str(COMMAND), *arguments])
    expect("```python" in page, f"onegraph {' '.join(arguments)} shows no program: {page}")
    return f"a break message, and its page by `onegraph {' '.join(arguments)}`"


def ways_in() -> str:
    expect(run(BACKEND) == "[2.0, 2.0] True\n", "torch.compile does not find the backend onegraph")
    expect(run(INSTALL, ONEGRAPH_INSTALL="1") == "True\n", "ONEGRAPH_INSTALL=1 does not install onegraph")
    expect(run(INSTALL) == "False\n", "onegraph is installed without being asked")
    return 'torch.compile(backend="onegraph") and ONEGRAPH_INSTALL=1'


def licences() -> str:
    """Ours is there; a library that auditwheel copied into the wheel would need one too."""
    names = [str(path) for path in files("onegraph") or ()]
    expect(any(name.endswith("licenses/LICENSE") for name in names), "the wheel has no licence")
    bundled = [name for name in names if name.startswith("onegraph.libs/")]
    expect(not bundled, f"the wheel has libraries of others, without their licences: {bundled}")
    return "the licence; nothing of others is bundled"


def import_time() -> str:
    """The package loads what it needs when a name of it is first used; a program pays for that once, and is told."""
    samples = [tuple(map(float, run(TIMES, TORCH_DEVICE_BACKEND_AUTOLOAD="0").split())) for _ in range(SAMPLES)]
    imported, used = (median(each) for each in zip(*samples, strict=True))
    expect(imported < IMPORT_LIMIT, f"import onegraph takes {imported:.3f} s beyond torch")
    return f"import onegraph: {imported * 1000:.1f} ms of CPU beyond torch; first use of onegraph.compile: {used:.2f} s"


CHECKS: tuple[Callable[[], str], ...] = (
    first_example, command_line, message_and_page, ways_in, licences, import_time,
)  # fmt: skip

if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]} with torch {version('torch')}", flush=True)
    for check in CHECKS:
        print(f"  {check()}", flush=True)
