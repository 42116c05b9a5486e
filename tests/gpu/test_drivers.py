"""Opening CUDA's driver: what is said where there is none, or one that cannot be used; and what is declared of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from gpu.driver import StandIn, compile_library, driver_sources, image_of

from onegraph import _C

CSRC = Path(__file__).parents[2] / "csrc"
IMAGE = image_of({"k": ("", {})})


def load(path: str) -> _C.CudaKernel:
    return _C.CudaKernel(IMAGE, "k", 32, 0, 0, 0, path)


def test_there_is_no_driver(tmp_path: Path) -> None:
    for path in ("libno-such-driver.so.1", str(tmp_path / "libcuda.so.1")):
        with pytest.raises(RuntimeError, match=f"cannot be opened: {path}: .* in the option cuda_driver"):
            load(path)


def test_a_driver_that_is_too_old() -> None:
    old = compile_library("libcuda.so.1", driver_sources(), "-DcuGraphInstantiateWithFlags=cuGraphInstantiate_v2")
    for _ in range(2):  # a driver that cannot be used is not kept
        with pytest.raises(RuntimeError, match="is too old: it has no cuGraphInstantiateWithFlags. CUDA 11.4 or later"):
            load(str(old))


def test_a_driver_before_cuda_12_4_does_not_tell_how_parameters_lie() -> None:
    driver = StandIn("-DBEFORE_CUDA_12_4")
    kernel = driver.kernel("k", "pi")
    with pytest.raises(RuntimeError, match="launching k: invalid argument"):  # nothing is mapped at 16
        _C.launch_cuda_kernel(kernel.address, (1,), (16,), (5,))


def test_there_is_no_device() -> None:
    driver = StandIn()
    driver.set(devices=0)
    with pytest.raises(
        RuntimeError, match=r"cannot be used: .*: no CUDA-capable device is detected \(CUDA_ERROR_NO_DEV"
    ):
        driver.kernel("k", "")
    driver.set(devices=1)
    driver.kernel("k", "")
    assert not driver.complaints()


@pytest.mark.slow
def test_who_compiles_for_the_processor_opens_no_driver() -> None:
    program = (
        "import onegraph, torch\n"
        "print(onegraph.compile(torch.sin)(torch.ones(3)).shape)\n"
        "print(any('cuda' in line for line in open('/proc/self/maps')))\n"
    )
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["torch.Size([3])", "False"]


def cuda_h() -> Path:
    triton = pytest.importorskip("triton", reason="needs Triton, which brings cuda.h")
    return Path(triton.__file__).parent / "backends" / "nvidia" / "include"


def compiles(text: str, tmp_path: Path, include: Path) -> None:
    source = tmp_path / "declared.c"
    source.write_text(text)
    subprocess.run(["gcc", "-fsyntax-only", "-Werror", f"-I{include}", str(source)], check=True)


def test_the_stand_in_is_declared_as_the_driver(tmp_path: Path) -> None:
    compile_library("libcuda.so.1", driver_sources(), "-DWITH_CUDA_H", f"-I{cuda_h()}")


def test_functions_have_the_names_and_types_of_the_driver_s(tmp_path: Path) -> None:
    """The table of csrc/cuda_driver.c, whose names are those behind the macros of cuda.h."""
    header, table = (CSRC / "cuda.h").read_text(), (CSRC / "cuda_driver.c").read_text()
    rows = re.findall(r'SYMBOL\((\w+), "(\w+)"\)', table)
    optional = re.findall(r'call\.(\w+) = dlsym\(library, "(\w+)"\)', table)
    fields = header[header.index("CUresult (*init)") : header.index("} CudaFunctions")]
    assert len(rows) > 20 and {field for field, _ in rows + optional} == {*re.findall(r"\(\*(\w+)\)", fields)}
    # enumerations are integers to C's calls, and not to its compiler
    words = {
        "int *status": "CUstreamCaptureStatus *status",
        "int *mode": "CUstreamCaptureMode *mode",
        "int mode)": "CUstreamCaptureMode mode)",
    }
    fields = re.sub(r"/\*.*?\*/", "", fields, flags=re.DOTALL)
    for ours, theirs in words.items():
        fields = fields.replace(ours, theirs)
    for name, kind in [("device_attribute", "CUdevice_attribute"), ("function_attribute", "CUfunction_attribute"),
                       ("set_function_attribute", "CUfunction_attribute")]:  # fmt: skip
        fields = re.sub(rf"(\(\*{name}\)\([^)]*?)int attribute", rf"\1{kind} attribute", fields)
    checks = [f"    table.{field} = {re.sub(r'_v[0-9]+$', '', name)};" for field, name in rows + optional]
    names = [
        f'_Static_assert(__builtin_strcmp(TEXT({re.sub(r"_v[0-9]+$", "", name)}), "{name}") == 0, "{name}");'
        for _, name in rows
    ]
    compiles(
        "#include <cuda.h>\n#include <stdint.h>\n#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n"
        f"struct {{ {fields} }} table;\nvoid check(void)\n{{\n" + "\n".join(checks) + "\n}\n" + "\n".join(names),
        tmp_path,
        cuda_h(),
    )


def test_numbers_are_those_of_the_driver(tmp_path: Path) -> None:
    ours = dict(re.findall(r"\b([A-Z_]+) = (\d+),", (CSRC / "cuda.h").read_text()))
    theirs = {
        "CUDA_ERROR_OUT_OF_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_ERROR_NO_BINARY_FOR_GPU": "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "SHARED_PER_BLOCK_OPTIN": "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
        "CAPABILITY_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
        "CAPABILITY_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
        "MAX_THREADS": "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
        "STATIC_SHARED": "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES",
        "LOCAL_BYTES": "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES",
        "REGISTERS": "CU_FUNC_ATTRIBUTE_NUM_REGS",
        "MAX_DYNAMIC_SHARED": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
        "CAPTURE_NONE": "CU_STREAM_CAPTURE_STATUS_NONE",
        "CAPTURE_THREAD_LOCAL": "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",
        "CAPTURE_RELAXED": "CU_STREAM_CAPTURE_MODE_RELAXED",
    }
    assert {*theirs} == {*ours} - {"MAX_DEVICES", "SCRATCH_POINTERS"}
    lines = [f'_Static_assert({name} == {ours[key]}, "{key}");' for key, name in theirs.items()]
    ends = [
        '_Static_assert(CU_LAUNCH_PARAM_END == (void *)0 && CU_LAUNCH_PARAM_BUFFER_POINTER == (void *)1, "");',
        '_Static_assert(CU_LAUNCH_PARAM_BUFFER_SIZE == (void *)2, "");',
    ]
    compiles("#include <cuda.h>\n" + "\n".join([*lines, *ends]), tmp_path, cuda_h())
