"""What README says about settings is what the code has. TABAHEAD_UPDATE=1 writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from lsp_server.settings import tree as settings

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"


def settings_table() -> str:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for row in settings.describe():
        kind = row.type.replace("|", "\\|")
        rows.append(f"| `{row.key}` | {kind} | `{row.default}` | {row.doc} |")
    return "\n".join(rows) + "\n"


def test_the_settings_table_is_that_of_the_code():
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    table, _, tail = rest.partition(END)
    if os.environ.get("TABAHEAD_UPDATE") == "1":
        README.write_text(head + BEGIN + settings_table() + END + tail, encoding="utf-8")
    else:
        assert table == settings_table()
