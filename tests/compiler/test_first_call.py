from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from import_graph import ROOT


def test_the_first_call_does_not_import_what_takes_longer_than_compiling(tmp_path: Path) -> None:
    script = Path(__file__).with_name("first_call.py")
    environment = os.environ | {"ONEGRAPH_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, script]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, env=environment)
    assert result.returncode == 0, result.stderr
