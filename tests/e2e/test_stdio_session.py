"""An ordinary session with a real client library, and memory over a long one."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import psutil
import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from tests.lsp_client import ServerProcess, at, environment

URI = "file:///session.py"
SCRIPT = [
    {"after": "slow", "text": "abcd" * 50, "delay_ms": 100},
    {"after": "return ", "text": "a + b"},
    {"after": "", "text": "hello()"},
]
NUM_REQUESTS, NUM_DOCUMENTS = 10_000, 2_000
MAX_GROWTH = 10 * 1024 * 1024


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return f"scripted:{path}"


def ask(line: int, character: int) -> types.InlineCompletionParams:
    return types.InlineCompletionParams(
        text_document=types.TextDocumentIdentifier(URI),
        position=types.Position(line, character),
        context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
    )


def edit(version: int, start: tuple[int, int], end: tuple[int, int], text: str) -> object:
    where = types.Range(types.Position(*start), types.Position(*end))
    return types.DidChangeTextDocumentParams(
        types.VersionedTextDocumentIdentifier(version=version, uri=URI),
        [types.TextDocumentContentChangePartial(range=where, text=text)],
    )


def items(result: object) -> list[types.InlineCompletionItem]:
    assert isinstance(result, types.InlineCompletionList), result
    return list(result.items)


async def session(client: LanguageClient) -> None:
    result = await client.initialize_async(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(),
            root_uri=None,
            initialization_options={"prose": True},
        )
    )
    assert result.capabilities.inline_completion_provider == types.InlineCompletionOptions()
    client.initialized(types.InitializedParams())
    document = types.TextDocumentItem(URI, "python", 1, "# 😋\r\ndef add(a, b):\r\n    ")
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    client.text_document_did_change(edit(2, (0, 4), (0, 4), "é😋"))
    client.text_document_did_change(edit(3, (2, 4), (2, 4), "return "))
    (item,) = items(await client.text_document_inline_completion_async(ask(2, 11)))
    cursor = types.Position(2, 11)
    assert item.insert_text == "a + b"
    assert item.range == types.Range(cursor, cursor)

    client.text_document_did_change(edit(4, (2, 0), (2, 11), "slow"))
    running = asyncio.ensure_future(client.text_document_inline_completion_async(ask(2, 4)))
    await asyncio.sleep(0)  # the library sends a request in the next turn only
    (request_id,) = client.protocol._request_futures
    client.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(id=request_id))
    with pytest.raises(JsonRpcException) as cancelled:
        await running
    assert cancelled.value.code == -32800

    burst = [client.text_document_inline_completion_async(ask(n % 3, 4)) for n in range(100)]
    burst.append(client.text_document_inline_completion_async(ask(1, 14)))
    answers = await asyncio.gather(*burst)
    assert len(answers) == 101
    assert items(answers[-1])

    await client.shutdown_async(None)
    client.exit(None)


def test_open_edit_ask_cancel_burst_and_leave(script: str) -> None:
    async def main() -> int:
        client = LanguageClient("test", "0")
        await client.start_io(
            sys.executable, "-P", "-m", "lsp_server", "--stdio", "--model", script,
            env=environment(),
        )  # fmt: skip
        await asyncio.wait_for(session(client), 60)
        process = client._server
        assert process is not None
        code = await asyncio.wait_for(process.wait(), 20)
        await client.stop()
        return code

    assert asyncio.run(main()) == 0


def test_memory_stays_flat_over_requests_and_documents(script: str) -> None:
    """10,000 requests and 2,000 documents, the first fifth of each to warm up."""
    text = "x = 1  # é\n" * 200 + "y = "

    def round_of_documents(client: ServerProcess, first: int, num: int, requests: int) -> None:
        uris = [f"file:///{first + n}.py" for n in range(num)]
        for uri in uris:
            client.open(uri, text)
        asked = [
            client.start("textDocument/inlineCompletion", at(uris[n % num], 200, 4))
            for n in range(requests)
        ]
        for request in asked:
            assert "result" in client.response(request)
        for uri in uris:
            client.change(uri, 2, "z", (0, 0, 0, 0))
            client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    size = 40
    rounds = NUM_DOCUMENTS // size
    with ServerProcess("--model", script) as client:
        client.initialize()
        process = psutil.Process(client.process.pid)
        for n in range(rounds):
            if n == rounds // 5:
                before = process.memory_info().rss
            round_of_documents(client, n * size, size, NUM_REQUESTS // rounds)
        growth = process.memory_info().rss - before
        assert client.stop() == 0
        assert client.stderr() == ""
    assert growth < MAX_GROWTH, f"grew by {growth / 1e6:.1f} MB"
