"""What typing costs: the tokens that a key adds to those that the KV cache has already."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from lsp_server.completion import Snapshot
from lsp_server.context.selection import Snippet
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.tokenizer import Tokenizer
from lsp_server.prompt.fim import (
    PLAIN,
    PREFIX_FIRST,
    SUFFIX_FIRST,
    SUFFIX_THEN_PREFIX,
    Part,
    Template,
)
from lsp_server.prompt.prompter import Prompt, Prompter
from lsp_server.prompt.window import window_start

pytestmark = pytest.mark.model
SOURCE = Path(__file__).parents[2] / "lsp_server" / "server.py"
FILES = (Snippet("file:///other.py", "def other(value):\n    return value + 1\n" * 8),)
MARKERS = {Part.PREFIX_MARKER: 3, Part.SUFFIX_MARKER: 4, Part.MIDDLE_MARKER: 5}
"""Control tokens of the default model that its text never has."""
TEMPLATES = {
    "plain": Template(layout=PLAIN),
    "prefix first": Template("a", PREFIX_FIRST, MARKERS),
    "suffix first": Template("b", SUFFIX_FIRST, MARKERS),
    "suffix then prefix": Template("c", SUFFIX_THEN_PREFIX, MARKERS),
    "files behind markers": Template("d", PREFIX_FIRST, MARKERS, file_id=6),
}
BUDGET, NUM_KEYS = 1024, 200


@pytest.fixture(scope="module")
def tokenizer(default_model_folder: Path) -> Tokenizer:
    return Tokenizer(default_model_folder / "tokenizer.json")


def states() -> list[tuple[str, int]]:
    """Document and cursor at each key of a real file, brackets closing by themselves."""
    text = SOURCE.read_text(encoding="utf-8")
    start = len(text) * 2 // 3
    below = text[text.index("\n", start + NUM_KEYS) :]
    found = []
    for end in range(start, start + NUM_KEYS):
        line = text[text.rfind("\n", 0, end) + 1 : end]
        closers = ")" * (line.count("(") - line.count(")"))
        found.append((text[:end] + closers + below, end))
    return found


def prompt_of(prompter: Prompter, state: tuple[str, int]) -> Prompt:
    document, cursor = state
    snapshot = Snapshot("file:///a.py", 1, "python", document)
    return prompter.prompt(snapshot, cursor, BUDGET, files=FILES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_key_adds_at_most_eight_tokens_at_the_median(tokenizer, name):
    prompter = Prompter(tokenizer, TEMPLATES[name])
    last: list[int] = []
    added: list[int] = []
    for state in states():
        prompt = prompt_of(prompter, state)
        assert BUDGET / 2 < len(prompt.token_ids) <= BUDGET
        assert prompt.num_file_tokens > 0
        added.append(len(prompt.token_ids) - common_prefix(last, prompt.token_ids))
        last = prompt.token_ids
    assert statistics.median(added[1:]) <= 8
    # All of it is read again only where the window moves on, which is once in 1,536 characters.
    assert sum(count > BUDGET / 2 for count in added[1:]) <= 1


def test_the_window_never_goes_back_while_a_text_is_typed(tokenizer):
    """In the midst of a word there are more tokens than at its end."""
    lines = (f"    documents_{n} = RequestOptions.snapshots(factory, {n})\n" for n in range(60))
    text = "".join(lines)
    starts = [
        window_start(text[:end], 512, lambda part: len(tokenizer.encode(part)))
        for end in range(1500, len(text))
    ]
    assert starts == sorted(starts)
    assert starts[0] < starts[-1]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_does_not_depend_on_those_before_it(tokenizer, name):
    prompter = Prompter(tokenizer, TEMPLATES[name])
    for state in states()[:100]:
        last = prompt_of(prompter, state)
    assert prompt_of(Prompter(tokenizer, TEMPLATES[name]), states()[99]) == last


def test_the_prompts_tokens_are_those_of_its_text(tokenizer):
    """What is kept of earlier prompts changes nothing."""
    prompter = Prompter(tokenizer, TEMPLATES["plain"])
    for state in states()[::20]:
        prompt = prompt_of(prompter, state)
        near = [*prompt.token_ids[prompt.num_file_tokens :], *prompt.seam.token_ids]
        assert tokenizer.encode(tokenizer.decode(near)) == near
