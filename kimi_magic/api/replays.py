"""The recordings that replays of a chat find: of its store, its notebook's outputs, and cassettes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..client import NO_KEY, SIMULATOR_URL, AsyncClient
from ..errors import StoreError
from ..paths import user_path
from ..recordings import Library
from ..store import TWIN, read_twins
from ..transports import ReplayTransport, read_cassette

MAX_NOTEBOOK = 50_000_000  # bytes of a notebook that is looked through for recordings


class Replays:
    """Recordings, and the client that answers from them."""

    def __init__(self) -> None:
        self.recordings = Library()
        self.player = ReplayTransport(self.recordings)
        self.client = AsyncClient(NO_KEY, SIMULATOR_URL, transport=self.player)
        self._gathered = False
        self._played = {""}  # cassettes of the settings

    def play(self, path: Path) -> int:
        """Take in the recordings of a cassette; how many there are."""
        recordings = read_cassette(path)
        for recording in recordings:
            self.recordings.add(recording)
        return len(recordings)

    def gather(self, notebook: Path | None, cassette: str) -> list[str]:
        """Take in, once each, what a notebook carries in its outputs, and a cassette ("" for none); warnings.
        Raises `ReplayError`, each time, for a cassette that cannot be read.

        Where the notebook is not known, the notebooks beside the kernel are looked at: a recording is
        found by its whole request, so another one's never fits by accident.
        """
        tape = read_cassette(user_path(cassette)) if cassette not in self._played else []
        warnings = [] if self._gathered else self._read(notebook)
        for recording in tape:
            self.recordings.add(recording)
        self._gathered = True
        self._played.add(cassette)
        return warnings

    def _read(self, notebook: Path | None) -> list[str]:
        """Take in what notebooks carry."""
        warnings = []
        for path in [notebook] if notebook is not None else sorted(Path().glob("*.ipynb")):
            if not carries_turns(path):
                continue
            try:
                found = read_twins(path)
            except StoreError as error:
                warnings.append(f"{error} Replays do without it.")
                continue
            for turn in found.turns:
                self.recordings.add_turn(turn, path.name, partial(found.before, turn))
        return warnings


def carries_turns(path: Path) -> bool:
    """Whether a notebook's file is worth reading for turns."""
    try:
        return path.stat().st_size < MAX_NOTEBOOK and TWIN in path.read_text("utf-8", errors="replace")
    except OSError:
        return False  # gone, or not ours to read: then it has nothing for us
