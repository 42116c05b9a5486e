"""The C extension; everything else is in pyproject.toml. It needs nothing of torch to be built."""

from pathlib import Path
from sysconfig import get_path

from setuptools import Extension, setup

SOURCES = sorted(str(path) for path in Path("csrc").glob("*.c"))
DEPENDS = sorted(str(path) for path in Path("csrc").glob("*.[hd]*"))

setup(
    ext_modules=[
        Extension(
            "onegraph._C",
            sources=SOURCES,
            depends=DEPENDS,
            libraries=["dl"],
            optional=True,  # without it, onegraph says so, and programs run as they are written
            extra_compile_args=[
                "-std=gnu11",
                "-O2",  # also where CFLAGS replace the defaults
                "-Wall",
                "-Wextra",
                "-fvisibility=hidden",
                # CPython's own headers are not ours to warn about.
                f"-isystem{get_path('include')}",
            ],
        )
    ],
    package_dir={"": "src"},
)
