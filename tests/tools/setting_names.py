"""`python -m tests.tools.setting_names`: add the settings of the torch that is installed to the known ones."""

from __future__ import annotations

import textwrap
from pathlib import Path

import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
import torch.compiler.config

from onegraph.base import setting_names

MODULES = (torch._dynamo.config, torch._inductor.config, torch._functorch.config, torch.compiler.config)


def main() -> None:
    path = Path(setting_names.__file__)
    before, _, _ = path.read_text().partition('"""\n    ')
    names = sorted(setting_names.NAMES.union(*(module._config for module in MODULES)))
    text = textwrap.fill(" ".join(names), 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    path.write_text(f'{before}"""\n{text}\n    """.split()\n)\n')
    print(f"{len(names)} names")


if __name__ == "__main__":
    main()
