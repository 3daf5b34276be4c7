"""What the server weighs with the default model, by the operating system's own account."""

from __future__ import annotations

import time

import psutil
import pytest

from lsp_server.bench.client import StdioClient

MAX_MB = 500
WORDS = ("total", "value", "count", "index", "result", "items", "name", "other")


def long_source(num_lines: int) -> str:
    def line(n: int) -> str:
        name, argument, used = (WORDS[n * step % 8] for step in (1, 3, 5))
        return f"def {name}_{n}({argument}): return {used} + {n * 37 % 101}"

    lines = [line(n) for n in range(num_lines)]
    return "\n".join(lines) + "\nvalue = tot"


@pytest.mark.model
def test_memory_stays_below_500_mb_after_a_prompt_of_1000_tokens(default_model_folder):
    client = StdioClient(str(default_model_folder))
    client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.notify("initialized", {})
    uri, text = "untitled:long.py", long_source(68)
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": document})
    ask = {
        "textDocument": {"uri": uri},
        "position": {"line": text.count("\n"), "character": len("value = tot")},
        "context": {"triggerKind": 1},
    }
    explained = {"reason": "model-loading"}
    while explained["reason"] == "model-loading":
        client.request("textDocument/inlineCompletion", ask)
        explained = client.request("tabahead/explain", {"textDocument": {"uri": uri}})
        time.sleep(0.05)  # no message tells when the model is ready
    resident = psutil.Process(client.process.pid).memory_info().rss / 2**20
    client.close()
    assert explained["stats"]["prompt_tokens"] >= 900
    print(f"{resident:.0f} MB resident")
    assert resident < MAX_MB
