"""A cancelled generation leaves the engine idle at once, whatever it is in the middle of."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from lsp_server.backend.engine_backend import EngineBackend
from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import CompletionRequest, CompletionResult, Mode, Reason, Snapshot
from lsp_server.settings.tree import Settings
from tests.benchmarks.figures import keep

MAX_MS = 50.0
TRIALS = 9
LINE = "values_{n} = [item_{n} for item_{n} in range({n}) if item_{n} % 3]\n"


@pytest.fixture(scope="module")
def backend(default_model_folder) -> Iterator[EngineBackend]:
    settings = Settings(model=str(default_model_folder), prompt_tokens=2000)
    backend = load_engine(settings, lambda *_: None, CancelToken())
    yield backend
    backend.close()


def long_text(trial: int) -> str:
    """Nearly 2,000 tokens, so that the window takes them all; no trial has the first in common with
    another."""
    return f"# {trial}\n" + "".join(LINE.format(n=1000 * (trial + 1) + n) for n in range(47))


def stopping(
    backend: EngineBackend, request: CompletionRequest, after: float
) -> tuple[float, CompletionResult]:
    """Milliseconds from the cancelling, `after` seconds into the work, to the end of the work."""
    token, results, ended = CancelToken(), [], []

    def work() -> None:
        results.append(complete(request, backend, token))
        ended.append(time.perf_counter())

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(after)  # until the pass under way is in its middle
    cancelled = time.perf_counter()
    token.cancel()
    thread.join()
    return (ended[0] - cancelled) * 1000, results[0]


@pytest.mark.model
def test_the_engine_is_idle_at_once_when_cancelled_in_the_middle_of_a_prompt(backend):
    times = []
    for trial in range(TRIALS):
        text = long_text(trial)
        request = CompletionRequest(Snapshot("file:///a.py", 1, "python", text), len(text))
        ms, result = stopping(backend, request, 0.1 + 0.05 * trial)
        assert result.reason is Reason.CANCELLED
        assert result.stats.tokens == 0, "it was not in the prompt any more"
        times.append(ms)
    assert result.stats.prompt_tokens > 1900
    keep("cancel_in_prompt", median_ms=statistics.median(times), worst_ms=max(times))
    assert statistics.median(times) < MAX_MS


@pytest.mark.model
def test_the_engine_is_idle_at_once_when_cancelled_while_it_writes(backend):
    text = "def numbers():\n    return [\n" + "".join(f"        {n},\n" for n in range(60))
    snapshot = Snapshot("file:///b.py", 1, "python", text)
    request = CompletionRequest(
        snapshot, len(text), invoked=True, mode=Mode.BLOCK, max_tokens=500, sources=()
    )
    stopping(backend, request, 5.0)  # reads the prompt
    times, tokens = [], []
    for trial in range(TRIALS):
        ms, result = stopping(backend, request, 0.3 + 0.013 * trial)
        assert result.reason is Reason.CANCELLED
        times.append(ms)
        tokens.append(result.stats.tokens)
    assert min(tokens) > 0, "it was not writing yet"
    keep("cancel_in_decode", median_ms=statistics.median(times), worst_ms=max(times))
    assert statistics.median(times) < MAX_MS
