"""A kernel's worth of notebooks: asks in each of them, and says each turn when it is kept.

python tests/reliability/asker.py FOLDER FIRST NOTEBOOKS TURNS     on the server of KIMI_BASE_URL
"""

from __future__ import annotations

import sys
from pathlib import Path

from kimi_magic import Kimi


def main(folder: Path, first: int, notebooks: int, turns: int) -> None:
    chats = [Kimi(notebook=str(folder / f"{first + n}.ipynb")) for n in range(notebooks)]
    for turn in range(turns):
        for n, chat in enumerate(chats):
            prompt = f"Question {turn} of notebook {first + n}."
            chat.ask(prompt, effort="low")
            print(prompt, flush=True)
    for chat in chats:
        chat.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
