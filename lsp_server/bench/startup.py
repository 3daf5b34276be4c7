"""`bench startup`: from the start of the process to the answer of `initialize`, to the first item,
and the memory then; the protocol library's own import time beside it.

The server runs as editors run it: a process of its own, spoken to over its stdin and stdout.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lsp_server.bench.client import StdioClient
from lsp_server.bench.report import machine, publish
from lsp_server.errors import InferenceError
from lsp_server.settings.tree import Settings

_TEXT = "def mean(values):\n    total = 0\n    for value in values:\n        total"
_URI = "untitled:startup.py"
_TIMEOUT = 120.0


def run(args: argparse.Namespace, settings: Settings) -> int:
    from lsp_server.engine.providers import default_threads

    imports, initializes = [], []
    for _ in tqdm(range(args.rounds), unit="start"):
        imports.append(_import_seconds())
        client = StdioClient(settings.model)
        client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        initializes.append(time.perf_counter() - client.start)
        client.notify("initialized", {})
        client.close()
    first, rss = _first_item(settings.model)
    result: dict[str, Any] = {
        "suite": "startup",
        "machine": machine(settings.engine.threads or default_threads()),
        "model": settings.model,
        "import_s": round(statistics.median(imports), 4),
        "initialize_s": round(statistics.median(initializes), 4),
        "first_item_s": round(first, 4),
        "rss_mb": rss,
    }
    text = (
        f"initialize answered after {result['initialize_s']:.3f} s (median of {args.rounds};"
        f" importing the protocol library alone {result['import_s']:.3f} s),"
        f" first item after {first:.2f} s, {rss} MB resident then"
    )
    publish(result, text, json_only=args.json)
    return 0


def _import_seconds() -> float:
    """A process that imports the protocol library and ends."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import lsprotocol.types"], check=True)
    return time.perf_counter() - start


def _first_item(model: str) -> tuple[float, int | None]:
    """Seconds from the start of the process to the first item, asking as an editor does."""
    client = StdioClient(model)
    client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.notify("initialized", {})
    document = {"uri": _URI, "languageId": "python", "version": 1, "text": _TEXT}
    client.notify("textDocument/didOpen", {"textDocument": document})
    lines = _TEXT.split("\n")
    ask = {
        "textDocument": {"uri": _URI},
        "position": {"line": len(lines) - 1, "character": len(lines[-1])},
        "context": {"triggerKind": 1},
    }
    while not (client.request("textDocument/inlineCompletion", ask) or {}).get("items"):
        explained = client.request("tabahead/explain", {"textDocument": {"uri": _URI}})
        late = time.perf_counter() - client.start > _TIMEOUT
        if late or explained["reason"] != "model-loading":
            client.close()
            raise InferenceError(explained.get("message") or f"No item came: {explained}.")
        time.sleep(0.01)  # the model is loading, and no message tells when it is ready
    seconds = time.perf_counter() - client.start
    rss = _resident_mb(client.process.pid)
    client.close()
    return seconds, rss


def _resident_mb(pid: int) -> int | None:
    """Resident memory where the system tells (Linux), in MB."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    for line in status.read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return None
