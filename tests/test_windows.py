"""Windows' rules for paths, names and files, checked wherever the tests run: functions that take them get
`ntpath`, and what Windows lacks is looked for in the source."""

from __future__ import annotations

import ast
import ntpath
import os
import posixpath
import re
import subprocess
import sys
import time
import venv
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest
from notebook import Notebook
from test_conversation_files import branched
from test_recordings import recording
from test_twins import cell, saved, turn

from kimi_magic.cli import variables_for
from kimi_magic.keys import Key, find_key
from kimi_magic.magics.completion import parted
from kimi_magic.magics.reading import parse_cell
from kimi_magic.magics.words import pieces, quote
from kimi_magic.notebook import label
from kimi_magic.paths import user_path
from kimi_magic.prompt import Prompt, attach
from kimi_magic.recordings import to_line
from kimi_magic.store import load_conversation, read_twins, save_conversation
from kimi_magic.transports import read_cassette
from kimi_magic.usage.selection import moment

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kimi_magic"

# --- paths that are typed -----------------------------------------------------------------------

TYPED = {
    r"-f C:\data\x.csv": r"C:\data\x.csv",
    r"-fC:\data\x.csv": r"C:\data\x.csv",
    r"--file=C:\new\table.csv": r"C:\new\table.csv",
    r'-f "C:\my data\x.csv"': r"C:\my data\x.csv",
    r"-f 'C:\my data\x.csv'": r"C:\my data\x.csv",
    r"-f C:\\data\\x.csv": r"C:\data\x.csv",  # as in a Python string
    r"-f C:\{a}\~$x.csv": r"C:\{a}\~$x.csv",
    r"-f ..\x.csv -e low": r"..\x.csv",
    r"-f ~\x.csv": r"~\x.csv",
    r"-f \\server\share\x.csv": r"\\server\share\x.csv",
    r"--file=\\server\share\x.csv": r"\\server\share\x.csv",
    r'-f "\\server\my share\x.csv"': r"\\server\my share\x.csv",
    r"-f '\\server\my share\x.csv'": r"\\server\my share\x.csv",
    r"-f \\\\server\\share\\x.csv": r"\\server\share\x.csv",
}


@pytest.mark.parametrize(("line", "path"), TYPED.items())
def test_backslashes_of_a_path_survive(line: str, path: str) -> None:
    assert parse_cell(line).file == (path,)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r'save "C:\my  data\x.json"', ["save", r'"C:\my  data\x.json"']),
        (r"load 'C:\my data\x.json'", ["load", r"'C:\my data\x.json'"]),
        (
            r'usage --save="\\server\my share\u.csv" --all',
            ["usage", r'--save="\\server\my share\u.csv"', "--all"],
        ),
        ('restore "C:\\my data\\"', ["restore", '"C:\\my data\\"']),
        ("system Don't say  what's known", ["system", "Don't", "say", "what's", "known"]),
        ('fix a "quote', ["fix", "a", '"quote']),
        ('system 5" or 6"', ["system", '5"', "or", '6"']),
    ],
)
def test_a_path_with_spaces_is_one_word_of_a_subcommand(line: str, words: list[str]) -> None:
    assert pieces(line) == words


def test_files_with_spaces_in_their_names_are_saved_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    note = Notebook()
    try:
        for line in ('save "a  b.json"', "load 'a  b.json'", 'usage --save "u v.csv"'):
            assert note.run(f"%kimi {line}") is None
    finally:
        note.close()
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} >= {"a  b.json", "u v.csv"}


@pytest.mark.parametrize("path", [r"C:\data\x.csv", r"\\server\share\x.csv", r"..\x.csv"])
def test_tab_offers_a_path_as_it_is_typed(path: str) -> None:
    assert quote(path) == path


@pytest.mark.parametrize(
    ("typed", "separators", "folder", "begin"),
    [
        (r"C:\data\si", "\\/", "C:\\data\\", "si"),
        ("C:\\data/2026/si", "\\/", "C:\\data/2026/", "si"),
        ("si", "\\/", "", "si"),
        ("data/si", "/", "data/", "si"),
        (r"data\si", "/", "", r"data\si"),
    ],
)
def test_tab_looks_in_the_folder_that_is_typed(typed: str, separators: str, folder: str, begin: str) -> None:
    assert parted(typed, separators) == (folder, begin)


@pytest.mark.parametrize(
    ("written", "rules", "meant"),
    [
        ("~", ntpath, r"C:\Users\me"),
        (r"~\x.csv", ntpath, r"C:\Users\me\x.csv"),
        ("~/x.csv", ntpath, r"C:\Users\me/x.csv"),
        ("~$report.docx", ntpath, "~$report.docx"),
        (r"~WRL0001.tmp", ntpath, "~WRL0001.tmp"),
        (r'"C:\my data"', ntpath, r"C:\my data"),
        ("~/x.csv", posixpath, "/home/me/x.csv"),
        ("~nobody-has-this-name.csv", posixpath, "~nobody-has-this-name.csv"),
        ('"x"', posixpath, '"x"'),
    ],
)
def test_a_tilde_is_the_home_folder_and_else_a_character(
    written: str, rules: object, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USERPROFILE", r"C:\Users\me")
    monkeypatch.setenv("USERNAME", "me")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(user_path(written, rules)) == meant  # type: ignore[arg-type]  # two modules


def test_a_file_whose_name_begins_with_a_tilde_is_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("~nobody.csv").write_text("a,b\n", encoding="utf-8")
    assert "a,b" in attach(Prompt((), ()), {}, files=["~nobody.csv"]).text


# --- which notebook -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "rules", "path"),
    [
        (r"c:\Users\me\笔记.ipynb", ntpath, r"C:\Users\me\笔记.ipynb"),  # VS Code
        (r"C:\Users\me\笔记.ipynb", ntpath, r"C:\Users\me\笔记.ipynb"),  # Jupyter
        (r"C:/Users/me\sub/a.ipynb", ntpath, r"C:\Users\me\sub\a.ipynb"),  # Jupyter, root_dir with slashes
        (r"C:\Users\me\..\you\a.ipynb", ntpath, r"C:\Users\you\a.ipynb"),
        (r"\\server\share\a.ipynb", ntpath, r"\\server\share\a.ipynb"),
        ("/c/a.ipynb", posixpath, "/c/a.ipynb"),
        ("/home/me/c:\\a.ipynb", posixpath, "/home/me/c:\\a.ipynb"),
    ],
)
def test_one_notebook_has_one_label_whoever_names_it(said: str, rules: object, path: str) -> None:
    assert label(said, rules) == path  # type: ignore[arg-type]  # two modules


def test_the_launcher_of_a_venv_is_no_kernel_that_starts_another(tmp_path: Path) -> None:
    """On Windows `venv\\Scripts\\python.exe` starts the real Python and waits. Here a copy of it does."""
    venv.create(tmp_path / "venv", symlinks=False)
    (copy,) = (tmp_path / "venv").glob("bin/python") or (tmp_path / "venv").glob("Scripts/python.exe")
    real = os.path.realpath(sys.executable)
    launch = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[2:]], executable=sys.argv[1])"
    ask = "import os; from kimi_magic.notebook import jupyter_session as f; print(f(os.environ), flush=True)"
    again = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {launch!r}, {real!r}, '-c', {ask!r}])"
    )
    there = os.pathsep.join([str(ROOT), str(metadata.distribution("psutil").locate_file(""))])
    ran = subprocess.run(
        [copy, "-c", launch, real, "-c", f"{ask}; {again}"],
        env={**os.environ, "JPY_SESSION_NAME": "/srv/b.ipynb", "PYTHONPATH": there},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.split() == ["/srv/b.ipynb", "None"], ran.stderr


# --- files and values from elsewhere ------------------------------------------------------------

BOM = b"\xef\xbb\xbf"


def with_bom(path: Path) -> Path:
    """As editors on Windows save it."""
    path.write_bytes(BOM + path.read_bytes().replace(b"\n", b"\r\n"))
    return path


def test_a_conversation_that_an_editor_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    save_conversation(branched(), path)
    assert load_conversation(with_bom(path)) == branched()


def test_a_notebook_that_an_editor_saved_is_restored(tmp_path: Path) -> None:
    path = saved(tmp_path, cell(turn("a")))
    assert list(read_twins(with_bom(path)).conversations["main"].turns) == ["a"]


def test_a_cassette_that_an_editor_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(to_line(recording()), encoding="utf-8")
    assert read_cassette(with_bom(path)) == [recording()]


@pytest.mark.parametrize("value", ['"sk-test-1234"', "'sk-test-1234'", "sk-test-1234 "])
def test_a_key_is_taken_out_of_the_quotes_that_set_keeps(value: str) -> None:
    assert find_key(None, {"KIMI_API_KEY": value}) == Key("sk-test-1234", "KIMI_API_KEY")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be set here")
@pytest.mark.parametrize("text", ["0001-01-01", "1969-12-31", "9999-12-31T23:59"])
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York"])
def test_a_time_that_a_clock_does_not_know_is_a_time(
    text: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows' C library converts no local time before 1970 or after 3000, others none near the ends."""
    now = datetime(2026, 11, 30, tzinfo=UTC)
    with monkeypatch.context() as there:
        there.setenv("TZ", zone)
        time.tzset()
        found = moment(text, now)
    time.tzset()
    assert found == datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["9999999d", "999999999999999d"])
def test_a_time_before_all_dates_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="has no date"):
        moment(text, datetime(2026, 11, 30, tzinfo=UTC))


def test_the_variables_are_said_as_the_shell_takes_them() -> None:
    assert variables_for("http://x", "posix") == "export KIMI_BASE_URL=http://x KIMI_API_KEY=anything"
    assert variables_for("http://x", "nt").startswith('$env:KIMI_BASE_URL = "http://x"; $env:')


# --- names and calls ----------------------------------------------------------------------------

RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
FOLDERS = [folder for name in ("kimi_magic", "notebooks", "tests") if (folder := ROOT / name).is_dir()]


def test_every_file_of_ours_can_be_checked_out() -> None:
    names = [path.relative_to(ROOT) for folder in FOLDERS for path in folder.rglob("*")]
    parts = {part for name in names for part in name.parts}
    assert {p for p in parts if RESERVED.fullmatch(p) or re.search(r'[<>:"|?*\\]|[. ]$', p)} == set()
    assert len({str(name).lower() for name in names}) == len(names)


MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
CALLS = {
    "add_signal_handler",
    "alarm",
    "chown",
    "fork",
    "getegid",
    "geteuid",
    "getgid",
    "getuid",
    "killpg",
    "mkfifo",
    "pause",
    "setitimer",
    "setsid",
    "sigwait",
    "statvfs",
    "uname",
}
SIGNALS = {"SIGALRM", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2"}
GUARDED = {("cli.py", "geteuid")}  # behind hasattr
NO_FORMATS = re.compile(r"%[-_0^#klPs+]")
"""Of strftime: flags, and letters that Windows' C library does not have."""


def unportable(source: str) -> set[str]:
    """What a module uses that Windows does not have, or has in another way."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names} & MODULES
            case ast.ImportFrom(module=str(module), level=0):
                found |= {module} & MODULES
            case ast.Attribute(attr=attr):
                found |= {attr} & (CALLS | SIGNALS)
            case ast.Call(func=ast.Attribute(attr="strftime"), args=[ast.Constant(value=str(form))]):
                found |= set(NO_FORMATS.findall(form))
            case ast.Call(func=ast.Attribute(attr="read_text"), args=[], keywords=named):
                found |= set() if any(word.arg == "encoding" for word in named) else {"read_text"}
            case ast.Call(func=ast.Attribute(attr="write_text"), args=[_], keywords=named):
                found |= set() if any(word.arg == "encoding" for word in named) else {"write_text"}
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write")):
                found.add("os.write")  # of a handle in text mode: \n becomes \r\n
    return found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    import fcntl", "fcntl"),
        ("from resource import getrusage", "resource"),
        ("os.uname()", "uname"),
        ("loop.add_signal_handler(2, f)", "add_signal_handler"),
        ("os.kill(pid, signal.SIGKILL)", "SIGKILL"),
        ("now.strftime('%-d %B')", "%-"),
        ("now.strftime('%s')", "%s"),
        ("path.read_text()", "read_text"),
        ("path.write_text(text, newline='')", "write_text"),
        ("os.write(handle, data)", "os.write"),
    ],
)
def test_what_windows_lacks_is_found(source: str, found: str) -> None:
    assert unportable(source) == {found}


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_module_needs_what_windows_lacks(path: Path) -> None:
    allowed = {name for file, name in GUARDED if path.name == file}
    assert unportable(path.read_text(encoding="utf-8")) - allowed == set()
