"""Makes the README's picture from what `tabahead complete` really prints.

Run from the project's root, with `rich` installed: python tests/samples/picture.py
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PLACE = "tests/samples/shopping.py:22:22"
WIDTH = 78


def terminal_output(command: list[str]) -> str:
    """What the command prints when it believes that a person is looking."""
    reader, writer = pty.openpty()
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.DEVNULL):
        os.close(writer)
        chunks = []
        while True:
            try:
                chunk = os.read(reader, 4096)
            except OSError:  # Linux tells the end of a terminal as an error
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(reader)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def main() -> None:
    output = terminal_output([sys.executable, "-m", "lsp_server", "complete", PLACE])
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115 - lives as long as the script
    console.print(Text.from_markup(f"[bold]$[/] tabahead complete {PLACE}\n"))
    console.print(Text.from_ansi(output))
    target = Path(__file__).with_name("ghost-text.svg")
    # The font would be loaded from the network by whoever looks at the picture.
    drawn = console.export_svg(title="ghost text")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    target.write_text(picture, encoding="utf-8")
    print(target)


if __name__ == "__main__":
    main()
