"""The command `kimi-magic`: JupyterLab on the shipped notebook, a demonstration in the terminal, usage, what
is wrong with the installation, and the simulator as a server on loopback."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from . import __version__
from .console import forgive
from .counts import counted
from .errors import ConfigError, Interrupted, KimiError, OptionError
from .paths import user_path

DEMO = "Explain the Gini coefficient: a formula, a small table, and six lines of Python."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    forgive(sys.stdout, sys.stderr)
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except KimiError as error:
        print(f"kimi-magic: {error}", file=sys.stderr)
        return 1
    except (Interrupted, KeyboardInterrupt):
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kimi-magic", description="Kimi in Jupyter notebooks.")
    parser.add_argument("--version", action="version", version=f"kimi-magic {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    lab = commands.add_parser("lab", help="open JupyterLab on the quickstart notebook")
    lab.add_argument(
        "folder", nargs="?", default="kimi-notebooks", help="where the notebook is put (%(default)s)"
    )
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    lab.add_argument("--port", type=_port, default=8888, help="first port to try (%(default)s)")
    lab.set_defaults(run=_lab)
    demo = commands.add_parser("demo", help="one streamed reply in this terminal")
    demo.add_argument("prompt", nargs="*", help="what to ask")
    demo.set_defaults(run=_demo)
    usage = commands.add_parser("usage", help="tokens and cost of all notebooks")
    usage.add_argument(
        "--by", choices=("day", "model", "conversation", "notebook"), default="day", help="(%(default)s)"
    )
    usage.add_argument("--since", metavar="TIME", help="2026-11-30, today, 12h, 7d …")
    usage.add_argument("--notebook", metavar="PATH", help="of this notebook only")
    usage.add_argument("--model", help="of this model only")
    usage.add_argument("--save", metavar="FILE", help="write the records to a .csv or .jsonl file instead")
    usage.set_defaults(run=_usage)
    doctor = commands.add_parser("doctor", help="what is wrong with this installation, and how to mend it")
    doctor.add_argument(
        "--online", action="store_true", help="ask the server, too, whether it takes the key; costs nothing"
    )
    doctor.set_defaults(run=_doctor)
    simulate = commands.add_parser("simulate", help="serve the simulator on 127.0.0.1")
    simulate.add_argument("--port", type=_port, default=8765, help="port; 0 takes a free one (%(default)s)")
    simulate.add_argument(
        "--speed", type=_speed, default=120.0, help="output tokens a second; 0: at once (%(default)s)"
    )
    simulate.add_argument("--lenient", action="store_true", help="accept what other APIs' clients send, too")
    simulate.set_defaults(run=_simulate)
    return parser


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text!r}")
    return int(text)


def _speed(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"a speed is a number from 0 on, not {text!r}")


def _lab(args: argparse.Namespace) -> int:
    try:
        from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]  # it has none
    except ImportError:
        raise ConfigError("JupyterLab is not installed.", hint="pip install 'kimi-magic[lab]'") from None
    folder = user_path(args.folder).resolve()
    _put_notebooks(folder)
    print(f"The notebooks are in {folder}. Ctrl-C ends the server.", flush=True)
    # A folder of settings that JupyterLab reads beside the user's own, which go before it.
    paths = [str(Path(__file__).parent / "lab"), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    LabApp.launch_instance(argv=_lab_options(folder, args))
    return 0


def _put_notebooks(folder: Path) -> None:
    """Copy the shipped notebooks and their recordings into `folder`; what is there stays as it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in [*_shipped().glob("*.ipynb"), *_shipped().glob("*.jsonl")]:
            if not (folder / file.name).exists():
                shutil.copyfile(file, folder / file.name)
    except OSError as error:
        raise ConfigError(
            f"The notebooks cannot be put into {folder}: {error.strerror}.",
            hint="Name another folder: kimi-magic lab FOLDER",
        ) from None


def _lab_options(folder: Path, args: argparse.Namespace) -> list[str]:
    """JupyterLab's own options. It takes the next free port where the first is taken."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [
        f"--ServerApp.root_dir={folder}",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={args.port}",
        "--LabApp.default_url=/lab/tree/quickstart.ipynb",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
        *["--no-browser"] * args.no_browser,
        *["--allow-root"] * is_root,  # in a container one is root, and the server wants to hear that
    ]


def _shipped() -> Path:
    """The folder of the notebooks: in the installed package, or beside it in a checkout."""
    inside = Path(__file__).parent / "notebooks"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "notebooks"


def _demo(args: argparse.Namespace) -> int:
    from .api import Kimi, view_of
    from .display import TerminalView
    from .render import closing_lines

    kimi = Kimi()
    view = TerminalView(sys.stdout, lambda ending: closing_lines(view_of(ending)))
    try:
        prompt = os.fsencode(" ".join(args.prompt)).decode("utf-8", "replace")  # in whatever locale
        kimi.ask(prompt or DEMO, view=view)
    finally:
        kimi.close()
    return 0


def _usage(args: argparse.Namespace) -> int:
    from .render import ShownUsage, table_text
    from .render.usage import summary
    from .store import Store, store_path
    from .usage import UsageTable

    store = Store(store_path())
    try:
        found = UsageTable((), store.records).all(since=args.since, notebook=args.notebook, model=args.model)
    except ValueError:
        raise OptionError(
            f"--since takes a time, not {args.since!r}.", hint="2026-11-30, today, 7d …"
        ) from None
    finally:
        store.close()
    if args.save:
        is_are = "is" if len(found) == 1 else "are"
        print(f"{counted(len(found), 'record')} {is_are} in {found.save(args.save)}.")
    else:
        print(table_text(ShownUsage(found.records, by=args.by).rows(), summary(found.summary())))
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from .doctor import examine, lines

    found = examine(online=args.online)
    print(lines(found))
    return int(any(finding.is_wrong for finding in found))


def _simulate(args: argparse.Namespace) -> int:
    from .simulator import Simulator
    from .transports import serve

    simulator = Simulator(speed=args.speed, lenient=args.lenient)
    try:
        serving = serve(simulator, port=args.port)
    except OSError as error:
        raise ConfigError(
            f"The simulator cannot listen on port {args.port}: {error.strerror}.",
            hint="--port 0 takes a free one.",
        ) from None
    with serving as server:
        print(f"The simulator is at {server.url}. Ctrl-C ends it.", flush=True)
        print(f"  {variables_for(server.url)}", flush=True)
        while True:
            time.sleep(60)  # on Windows Ctrl-C ends a sleep, but no wait for an event


def variables_for(url: str, system: str = os.name) -> str:
    """What a shell takes to send a client there: PowerShell's on Windows."""
    if system == "nt":
        return f'$env:KIMI_BASE_URL = "{url}"; $env:KIMI_API_KEY = "anything"'
    return f"export KIMI_BASE_URL={url} KIMI_API_KEY=anything"


if __name__ == "__main__":
    sys.exit(main())
