"""Kimi in a Jupyter notebook.

    %load_ext kimi_magic      then %%kimi cells; %kimi help says the rest

    from kimi_magic import Client, AsyncClient, kimi

Names are loaded when they are first used, so that `%load_ext` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Kimi, Reply
    from .client import AsyncClient, Client
    from .config import KimiMagic
    from .errors import Interrupted, KimiError
    from .tools import Schema, Tool
    from .usage import PRICES, Price
    from .wire import Message

    kimi: Kimi

__version__ = "0.1.0"

__all__ = [
    "PRICES",
    "AsyncClient",
    "Client",
    "Interrupted",
    "Kimi",
    "KimiError",
    "KimiMagic",
    "Message",
    "Price",
    "Reply",
    "Schema",
    "Tool",
    "kimi",
    "load_ipython_extension",
    "unload_ipython_extension",
]

_HOMES = {
    "AsyncClient": "client",
    "Client": "client",
    "Interrupted": "errors",
    "Kimi": "api",
    "KimiError": "errors",
    "KimiMagic": "config",
    "Message": "wire",
    "PRICES": "usage",
    "Price": "usage",
    "Reply": "api",
    "Schema": "tools",
    "Tool": "tools",
}


def __getattr__(name: str) -> Any:
    if name == "kimi":
        value: Any = _make_kimi()
    elif name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _settings() -> KimiMagic:
    """The settings of this process; a reload of the module keeps them, as it keeps `kimi`."""
    if "_shared" not in globals():
        from .config import KimiMagic

        globals()["_shared"] = KimiMagic.from_environment()
    shared: KimiMagic = globals()["_shared"]
    return shared


def _kimi() -> Kimi:
    """The chat of this process, one for the magics and for Python."""
    made: Kimi | None = globals().get("kimi")
    return made if made is not None else __getattr__("kimi")


def _make_kimi() -> Kimi:
    import os
    import sys

    from .api import Kimi
    from .notebook import notebook_path

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    made = Kimi(_settings(), notebook=notebook_path(shell.user_ns if shell else {}, os.environ))
    if getattr(shell, "kernel", None) is not None:
        made.make_panel = lambda: _make_panel(made, shell)
    return made


def _make_panel(chat: Kimi, shell: Any) -> Any:
    from .display import ShellOutputs
    from .panel import Panel

    return Panel(chat, shell.user_ns, ShellOutputs(shell), shell.events)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext kimi_magic`."""
    from .magics import load

    load(shell, _settings(), _kimi)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext kimi_magic`."""
    from .magics import unload

    unload(shell)
