"""Reported faults: text of other files in the prompt. Numbers: `reports/suffix.toml`."""

from __future__ import annotations

import pytest

from lsp_server.completion import Snapshot
from lsp_server.context.store import ContextStore, render

HELPER = """\
def total_price(items, rate):
    amount = sum(item.price for item in items)
    return amount * (1 + rate)
"""
CALLER = """\
from helper import total_price


def receipt(items):
    return total_price(items, rate=
"""


def snapshot(name, text, version=1):
    return Snapshot(f"file:///project/{name}", version, "python", text)


def prompt_of(store, document, budget=4000):
    """What the model would read at the end of a document."""
    offset = len(document.text.rstrip())
    snippets = store.snippets(document, offset, budget)
    head = "".join(render(snippet, document.language_id) for snippet in snippets)
    return head + document.text[:offset]


@pytest.mark.parametrize("num_edits", [0, 1, 5])
def test_58_text_of_another_file_stands_once_in_the_prompt(num_edits):
    store = ContextStore()
    helper, caller = HELPER, CALLER
    for version in range(num_edits + 1):
        store.learn(snapshot("helper.py", helper, version))
        store.learn(snapshot("caller.py", caller, version))
        helper += f"\n\ndef rate_of_{version}():\n    return total_price([], {version})\n"
        caller = f"import os_{version}\n{caller}"
    document = snapshot("caller.py", caller, num_edits + 1)
    prompt = prompt_of(store, document)
    assert prompt.count("def total_price") == 1
    assert prompt.count("def receipt") == 1


def test_58_what_two_files_have_in_common_stands_once():
    store = ContextStore()
    for name in ("helper.py", "copy_of_helper.py", "third.py"):
        store.learn(snapshot(name, HELPER))
    assert prompt_of(store, snapshot("caller.py", CALLER)).count("def total_price") == 1


def test_58_a_document_is_no_context_of_its_own():
    store = ContextStore()
    store.learn(snapshot("caller.py", CALLER))
    store.learn(snapshot("helper.py", HELPER))
    assert prompt_of(store, snapshot("caller.py", CALLER)).count("def receipt") == 1


def test_58_a_file_that_was_closed_or_is_refused_now_is_context_no_more():
    store = ContextStore()
    store.learn(snapshot("helper.py", HELPER))
    assert "def total_price" in prompt_of(store, snapshot("caller.py", CALLER))
    store.forget("file:///project/helper.py")
    assert "def total_price" not in prompt_of(store, snapshot("caller.py", CALLER))
