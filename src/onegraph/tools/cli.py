"""The command line: `dump`, `explain`, `verify` and the like take `file.py::function`; `run` and `report` a program."""

from __future__ import annotations

import argparse
import os
import platform
import runpy
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch  # before what is ours, which it may install (onegraph.autoload)

from onegraph.base.config import PREFIX, Config
from onegraph.base.errors import InvalidArgument, OnegraphError
from onegraph.base.settings import config as settings
from onegraph.base.text import columns
from onegraph.base.torch_settings import ROWS
from onegraph.capture.breaks import CATALOGUE
from onegraph.compile import EVENTS, compile
from onegraph.install import install
from onegraph.tools.cache.command import add_cache_command
from onegraph.tools.explain import explain
from onegraph.tools.html_report.reporting import DEFAULT, reporting
from onegraph.tools.minify import minify
from onegraph.tools.pages import page, page_of_break, titles
from onegraph.tools.profile import profiling
from onegraph.tools.record import recording
from onegraph.tools.roofline import roofline
from onegraph.tools.simulation.command import add_simulate_command
from onegraph.tools.stages import STAGES, check_stages, sections, show, source_section
from onegraph.tools.target import load
from onegraph.tools.verification.report import Verification
from onegraph.tools.verify import verify

ANEW = {"share_versions": False, "cache_plans": False}  # so that all stages run
_DUMP_HELP = f"print every stage of one call as text: source, {', '.join(STAGES)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit status."""
    args = _parser().parse_args(argv)
    if args.run in (_run, _report):  # whose errors are the program's
        args.run(args)
        return 0
    try:
        result = args.run(args)
    except OnegraphError as error:
        print(f"onegraph: {error}", file=sys.stderr)
        return 1
    print(result)
    return 1 if isinstance(result, Verification) and not result else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="onegraph", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=_versions(), help="of onegraph, torch and Python")
    commands = parser.add_subparsers(required=True, metavar="command")
    dump = commands.add_parser("dump", help=_DUMP_HELP, description=_DUMP_HELP)
    dump.add_argument("--stages", default="", help="only these, separated by commas")
    dump.add_argument("--dynamic", action="store_true", help="symbolic sizes from the start")
    dump.set_defaults(run=_dump)
    why = commands.add_parser("explain", help="is it one graph, and if not, why?")
    why.set_defaults(run=_explain)
    same = commands.add_parser("verify", help="does it do what it does in eager mode, and if not, why?")
    same.add_argument("--backend", help="the backend that is compared with eager mode")
    same.add_argument("--dynamic", action="store_true", help="symbolic sizes from the start")
    same.add_argument("--file", help="where the program that shows a difference is written")
    same.set_defaults(run=_verify)
    profile = commands.add_parser("profile", help="where the time of a first call goes, the slowest stage first")
    profile.add_argument("--cold", action="store_true", help="nothing is taken from the cache on disk, nor kept there")
    profile.set_defaults(run=_profile)
    roof = commands.add_parser("roofline", help="the time of each kernel, against what the machine could do")
    roof.add_argument("--calls", type=int, default=20, help="how many calls are measured (default: 20)")
    roof.set_defaults(run=_roofline)
    small = commands.add_parser("minify", help="a small program that fails as a call does, or differs from eager mode")
    small.add_argument("--backend", help="the backend that fails (default: that of the settings)")
    small.add_argument("-o", dest="file", help="where the program is written (default: in a new folder)")
    small.set_defaults(run=_minify)
    for command in (dump, why, same, small, profile, roof, add_simulate_command(commands)):
        command.add_argument("target", help="file.py::function")
        command.add_argument(
            "--inputs", help="arguments, as an expression seen from inside the file (default: FUNCTION_inputs)"
        )
    breaks = commands.add_parser("explain-break", help="the page of one kind of graph break, or a list of all kinds")
    breaks.add_argument("kind", nargs="?", help="the code in brackets that a message shows")
    breaks.set_defaults(run=_explain_break)
    docs = commands.add_parser("docs", help="a page of the documentation, or a list of all pages")
    docs.add_argument("page", nargs="?", help="its name")
    docs.set_defaults(run=_docs)
    run = commands.add_parser("run", help="run a program in which torch.compile is onegraph's")
    run.set_defaults(run=_run)
    report = commands.add_parser("report", help="the same, and write a page about what was compiled, and what it cost")
    report.add_argument("-o", dest="output", default=DEFAULT, metavar="FILE", help=f"the page (default: {DEFAULT})")
    report.set_defaults(run=_report)
    for command in (run, report):
        command.add_argument("-m", dest="module", action="store_true", help="the program is a module")
        command.add_argument("program", help="a file, or with -m a module")
        command.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program is given")
    add_cache_command(commands)
    config = commands.add_parser("config", help="every option, with its variable and its present value")
    config.add_argument("name", nargs="?", help="what one setting means, ours or torch's")
    config.add_argument("--torch", action="store_true", help="what each setting of torch.compile means here")
    config.set_defaults(run=_config)
    return parser


def _versions() -> str:
    versions = {"onegraph": sys.modules["onegraph"].__version__, "torch": torch.__version__}
    return "\n".join(
        [*(f"{name} {version}" for name, version in versions.items()), f"Python {sys.version}", platform.platform()]
    )


def _dump(args: argparse.Namespace) -> str:
    stages = check_stages(name for name in args.stages.split(",") if name)
    target = load(args.target, args.inputs)
    with recording(EVENTS, STAGES.values()) as recorded:
        compile(target.function, dynamic=args.dynamic or None, options=ANEW)(*target.args)
    return show([source_section(target.function), *sections(recorded)], stages)


def _explain(args: argparse.Namespace) -> str:
    target = load(args.target, args.inputs)
    return str(explain(target.function)(*target.args))


def _verify(args: argparse.Namespace) -> Verification:
    target = load(args.target, args.inputs)
    return verify(target.function, backend=args.backend, dynamic=args.dynamic or None, file=args.file)(*target.args)


def _profile(args: argparse.Namespace) -> str:
    target = load(args.target, args.inputs)
    compiled = compile(target.function, options={"cache": False} if args.cold else None)
    with profiling(EVENTS) as profile:
        compiled(*target.args)
    return str(profile)


def _roofline(args: argparse.Namespace) -> str:
    target = load(args.target, args.inputs)
    return str(roofline(target.function, target.args, args.calls))


def _minify(args: argparse.Namespace) -> str:
    target = load(args.target, args.inputs)
    return str(minify(target.function, backend=args.backend, file=args.file)(*target.args))


def _explain_break(args: argparse.Namespace) -> str:
    if args.kind is None:
        return columns([(reason.code, reason.summary) for reason in CATALOGUE.values()])
    return page_of_break(args.kind)


def _docs(args: argparse.Namespace) -> str:
    return columns(titles()) if args.page is None else page(args.page)


def _run(args: argparse.Namespace) -> None:
    sys.argv = [args.program, *args.arguments]
    with install():
        if args.module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(args.program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(args.program).absolute().parent))
            runpy.run_path(args.program, run_name="__main__")


def _report(args: argparse.Namespace) -> None:
    if not args.module and not Path(args.program).exists():  # a page of an earlier run is left as it is
        sys.exit(f"onegraph: there is no program {args.program}")
    try:
        report = reporting(args.output)
    except InvalidArgument as error:
        sys.exit(f"onegraph: {error}")
    try:
        with report:
            _run(args)
    finally:
        if report.written:
            print(f"onegraph: the report is in {report.path}", file=sys.stderr)


def _config(args: argparse.Namespace) -> str:
    if args.torch:
        return columns([("setting of torch", "here"), *((name, row.meaning) for name, row in ROWS.items())])
    config = Config.from_environment()
    wanted = [f for f in fields(Config) if args.name in (None, f.name)]
    if not wanted:
        return f"{args.name}: {settings.meaning(args.name)}"
    rows = [(PREFIX + f.name.upper(), repr(getattr(config, f.name)), f.metadata["doc"]) for f in wanted]
    return columns([("variable", "value", "meaning"), *rows])
