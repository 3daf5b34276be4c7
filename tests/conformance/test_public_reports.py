"""Faults that users reported to other completion products: what is shown, and what accepting gives.

`reports/` has a tiny case for each, and further ones of its kind. All run through the real server
on a script, in each encoding of positions, and with both line ends. What needs more than a text is
in the files beside this one, with the case's number in the name of the test; what holds for any
text is in `test_public_reports_properties.py`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lsp_server.prompt.window import Around
from tests.editor import BYTES_A_UNIT, Editor
from tests.lsp_client import ServerProcess
from tests.marks import CURSOR, request_at, unmark

CASES = [
    case
    for path in sorted((Path(__file__).parent / "reports").glob("*.toml"))
    for case in tomllib.loads(path.read_text("utf-8"))["case"]
]
NAMES = [f"{case.get('number', '')} {case['fault']}".strip() for case in CASES]
LINE_ENDS = ("\n", "\r\n")
NUMBERS = {
    *(1, 3, 4, 6, 7, 9, 10, 12),  # text twice, text lost
    *(14, 15, 16, 18, 19, 21),  # indentation
    *(23, 24, 26, 28, 29, 31),  # positions, encodings, line ends
    *(33, 34, 36, 37, 40),  # stale answers and races
    *(42, 44, 47, 48, 49, 51, 52, 54, 55, 58, 59),  # cancelling, load, life, noise
}
"""Of all cases of the collection; it has gaps."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the model writes at each case's place, those with more text before the cursor first."""
    entries = [
        {"after": unmark(case["doc"], end).partition(CURSOR)[0], "text": unmark(case["model"])}
        for case in CASES
        for end in LINE_ENDS
    ]
    path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(sorted(entries, key=lambda entry: -len(entry["after"]))))
    return f"scripted:{path}"


@pytest.fixture(scope="module", params=BYTES_A_UNIT)
def client(request: pytest.FixtureRequest, script: str) -> Iterator[ServerProcess]:
    with ServerProcess("--model", script) as client:
        general = {"general": {"positionEncodings": [request.param]}}
        capabilities = client.initialize(capabilities=general)["result"]["capabilities"]
        assert capabilities["positionEncoding"] == request.param
        client.encoding = request.param
        yield client
        assert client.stop() == 0
        assert client.garbage == []


def opened(client: Any, case: dict[str, Any], line_end: str) -> Editor:
    before, _, after = unmark(case["doc"], line_end).partition(CURSOR)
    language = case.get("language", "unknown")
    return Editor(
        client, "file:///case", before + after, len(before),
        encoding=client.encoding, language=language,
    )  # fmt: skip


def formatting(case: dict[str, Any]) -> dict[str, Any]:
    """The editor's options where the case has them, as some clients send them."""
    if "tab_size" not in case:
        return {}
    options = {"tabSize": case["tab_size"], "insertSpaces": case["insert_spaces"]}
    return {"formattingOptions": options}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.parametrize("line_end", LINE_ENDS, ids=["lf", "crlf"])
def test_report(client, case, line_end):
    editor = opened(client, case, line_end)
    item = editor.ask(**formatting(case))
    assert editor.reason() == case.get("reason")
    if "reason" in case:
        assert item is None
    else:
        assert item is not None
        assert editor.accept(item) == unmark(case["result"], line_end)
    editor.close()


def test_every_report_has_a_test_that_bears_its_number():
    files = Path(__file__).parent.glob("test_public_reports*.py")
    named = {int(n) for file in files for n in re.findall(r"def test_(\d+)_", file.read_text())}
    assert named | {case["number"] for case in CASES if "number" in case} == NUMBERS


def test_names_of_cases_are_unique():
    assert len(set(NAMES)) == len(NAMES)


def test_each_entry_of_the_script_is_for_one_case():
    """Or a case would be answered with the text of another."""
    places: dict[str, str] = {}
    for case in CASES:
        before = unmark(case["doc"]).partition(CURSOR)[0]
        assert places.setdefault(before, case["model"]) == case["model"], before


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_28_the_prompt_is_the_same_for_both_line_ends(case):
    prompts = [
        Around.of(request.snapshot, request.offset)
        for request in (request_at(case["doc"], end) for end in LINE_ENDS)
    ]
    assert prompts[0] == prompts[1]
