"""JupyterLab and Notebook, driven as a user drives them: a server of its own, one page in Chromium.

    with Server(folder, "lab") as server:
        front = FrontEnd(server, page)
        front.open(cells)          a new notebook of these cells, its kernel idle
        front.run(0)               what Shift-Enter does

Nothing of the user's own Jupyter is read: configuration, data, runtime files and kernels live below
`folder`. The front end's application object is exposed, so its commands and models can be asked.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, Page

APPS = {"lab": ("jupyterlab", "LabApp"), "notebook": ("notebook", "JupyterNotebookApp")}
"""Front end → its module and the class that its settings belong to."""

SETTINGS: dict[str, dict[str, object]] = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    # Cells that are out of view have no DOM otherwise.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}
START_SECONDS = 60.0
ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / ".artifacts" / "screenshots"


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A Jupyter server without a token, for tests only. app: a key of `APPS`."""

    def __init__(self, folder: Path, app: str) -> None:
        self.app = app
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(parents=True)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._folder = folder
        self._log = folder / "server.log"
        for name, values in SETTINGS.items():
            file = folder / "config/lab/user-settings" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))

    def __enter__(self) -> Server:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(), env=self._environment(), cwd=self.notebooks, stdout=log, stderr=log
            )
        waited = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > waited:
                self._process.kill()
                raise RuntimeError(f"Jupyter did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def request(self, method: str, path: str) -> bytes:
        """An HTTP request to the server's own API."""
        request = urllib.request.Request(
            self.url + path, method=method, data=b"" if method == "POST" else None
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            return bytes(reply.read())

    def _command(self) -> list[str]:
        module, settings = APPS[self.app]
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.url.rpartition(":")[2],
            "ServerApp.port_retries": "0",
            "ServerApp.root_dir": str(self.notebooks),
            "ServerApp.password": "",
            "ServerApp.disable_check_xsrf": "True",
            "ServerApp.terminals_enabled": "False",
            "IdentityProvider.token": "",
            "LabApp.extension_manager": "readonly",
            "LabApp.news_url": "None",
            f"{settings}.expose_app_in_browser": "True",
        }
        return [sys.executable, "-m", module, "--no-browser", "--allow-root"] + [
            f"--{name}={value}" for name, value in options.items()
        ]

    def _environment(self) -> dict[str, str]:
        own = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "config/lab/user-settings",
            "JUPYTERLAB_WORKSPACES_DIR": "config/lab/workspaces",
            "IPYTHONDIR": "ipython",
        }
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "JPY_"))}
        inherited["KIMI_MAGIC_SIMULATOR_SPEED"] = "0"
        inherited["JUPYTER_PLATFORM_DIRS"] = "1"
        return inherited | {name: str(self._folder / part) for name, part in own.items()}

    def _answers(self) -> bool:
        try:
            self.request("GET", "/api/status")
        except OSError:
            return False
        return True


class FrontEnd:
    """One page with one notebook at a time."""

    def __init__(self, server: Server, page: Page) -> None:
        self.server = server
        self.page = page
        self._count = itertools.count(1)

    def open(self, cells: Sequence[str], name: str = "") -> str:
        """A new notebook of code cells, open and its kernel idle; its file name."""
        name = name or f"test-{next(self._count)}.ipynb"
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = new_notebook(
            cells=[new_code_cell(source) for source in cells], metadata={"kernelspec": kernel}
        )
        nbformat.write(notebook, self.server.notebooks / name)
        self.reopen(name)
        self.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)
        return name

    def reopen(self, name: str, *, keep: bool = False) -> None:
        """A file that is there, opened afresh. keep: its kernel goes on, as when the page is loaded again."""
        if keep:
            self.page.goto("about:blank")
        else:
            self.close()
        path = "lab?reset" if self.server.app == "lab" else f"notebooks/{name}"
        self.page.goto(f"{self.server.url}/{path}", wait_until="domcontentloaded")
        self.page.wait_for_function("() => window.jupyterapp?.restored", timeout=60_000)
        self.page.evaluate("() => window.jupyterapp.restored.then(() => null)")
        if self.server.app == "lab":
            self.page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=60_000)
            self.command("docmanager:open", path=name, factory="Notebook")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        self.page.evaluate(_HELPERS)

    def close(self) -> None:
        """Leave the notebook and end its kernel."""
        if self.page.url != "about:blank":
            self.page.goto("about:blank")
        for kernel in json.loads(self.server.request("GET", "/api/kernels")):
            with contextlib.suppress(OSError):
                self.server.request("DELETE", f"/api/kernels/{kernel['id']}")

    def command(self, name: str, **arguments: Any) -> None:
        """Run a command of the front end and wait for it."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
            [name, arguments],
        )

    def start(self, cell: int) -> None:
        """Begin to run a cell."""
        self.page.evaluate("i => front().select(i)", cell)
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell'); }")

    def run(self, cell: int) -> None:
        """Run a cell to its end."""
        self.start(cell)
        self.wait(cell)

    def wait(self, cell: int, seconds: float = 60.0) -> None:
        self.page.wait_for_function("i => front().done(i)", arg=cell, timeout=seconds * 1000)

    def is_running(self, cell: int) -> bool:
        return not self.page.evaluate("i => front().done(i)", cell)

    def interrupt(self) -> None:
        """What the front end's stop button does."""
        self.server.request("POST", f"/api/kernels/{self.page.evaluate('() => front().kernel()')}/interrupt")

    def restart(self) -> None:
        """What the front end's restart does; the kernel is idle again afterwards."""
        self.page.evaluate("() => front().restart()")
        self.page.wait_for_function("() => front().status() === 'idle'", timeout=60_000)

    def output(self, cell: int) -> Locator:
        """The output area of a cell, on the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-Cell-outputArea")

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """The outputs of a cell, as the front end would save them."""
        return list(self.page.evaluate("i => front().outputs(i)", cell))

    def set_source(self, cell: int, source: str) -> None:
        self.page.evaluate("([i, s]) => front().setSource(i, s)", [cell, source])

    def trusts(self, cell: int) -> bool:
        return bool(self.page.evaluate("i => front().trusted(i)", cell))

    def theme(self, dark: bool) -> None:
        self.command("apputils:change-theme", theme=f"JupyterLab {'Dark' if dark else 'Light'}")
        light = "false" if dark else "true"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def change_saved(self, name: str, change: Callable[[nbformat.NotebookNode], None]) -> None:
        """Change the file as somebody else's hand would."""
        path = self.server.notebooks / name
        notebook = nbformat.read(path, as_version=4)
        change(notebook)
        nbformat.write(notebook, path)


_HELPERS = """() => {
  window.front = () => {
    const panel = [...window.jupyterapp.shell.widgets('main')].find(w => w.content?.widgets);
    const notebook = panel.content, session = panel.sessionContext;
    const model = i => notebook.widgets[i].model;
    return {
      status: () => session.session?.kernel?.status ?? 'none',
      kernel: () => session.session.kernel.id,
      select: i => { notebook.activeCellIndex = i; notebook.deselectAll(); },
      done: i => model(i).executionCount != null && (model(i).executionState ?? 'idle') === 'idle',
      outputs: i => model(i).outputs.toJSON(),
      trusted: i => model(i).trusted,
      restart: () => session.session.kernel.restart(),
      subshells: on => { session.session.kernel.commsOverSubshells = on ? 'perCommTarget' : 'disabled'; },
      source: i => model(i).sharedModel.getSource(),
      kinds: () => notebook.widgets.map(w => w.model.type),
      setSource: (i, source) => model(i).sharedModel.setSource(source),
    };
  };
}"""
