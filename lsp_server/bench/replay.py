"""`bench replay`: two recorded sessions of typing in real time, to a server as editors run it.

What the figures mean:
- `keys`: edits that were replayed; after each one a completion is asked for. Of these requests
  `answered` brought an item, `empty` none, `cancelled` were cancelled by the client (which does so
  with the next key) or overtaken, `failed` brought an error, `unanswered` nothing at all.
- `p50_ms`, `p95_ms`, `p99_ms`, `count`: of the answers with an item, by where the server had it
  from; the client measures from the request's departure to the answer's arrival. The recordings
  have few slips, so that those of class `cache` come with the `slips` too: behind each session, at
  places where an item was shown, a wrong letter is typed and taken back.
- `shown_before_next_key`: share of the keys whose item came before the next key.
- `right_at_pause`: share of the pauses (the author's next edit is more than 500 ms away) at which
  an item was there whose first line is what the author then wrote; see `judgement`.
- `keystrokes_saved`: characters that a user gets who accepts that first line at each such pause.
- `reasons`: why requests brought no item, as the server counts them.
- `generations_started`: pieces of work that the engine was given, also those cancelled later and
  those ahead of any request (`generations_ahead`).
- `prefill_tokens_per_key_p50`: median, over the pieces that a request asked for, of the prompt's
  tokens in no cache, also where it was cancelled while reading them; keys answered without the
  engine cost none and are not in it.
- `cpu_s_per_1000_keys`: of the server, all threads, from the first key to the last answer.
- `loop_stall_p99_ms`: how late the server's event loop ran; see `lsp_server.probe`.
- `burst_generations`: pieces of work for 30 keys at 20 a second.
- `idle_cpu_percent`: of a core, in ten seconds without keys behind it all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from lsp_server import probe
from lsp_server.bench.client import StdioClient, asking, private_server
from lsp_server.bench.replay_figures import Session, figures_of, missed, page
from lsp_server.bench.report import machine, publish
from lsp_server.bench.slips import slips_of
from lsp_server.bench.traces import Edit, Patch, Trace, load_traces
from lsp_server.bench.typist import type_trace
from lsp_server.settings.tree import Settings

BURST = "let rest = total_of(&a_parts);"
_BURST_SECONDS = 1 / 20
_KEYS, _FULL = 400, 2000
_SETTLE_SECONDS, _IDLE_SECONDS = 3.0, 10.0
"""Of sleep: until what the server does of itself (reading ahead) is done, and while it is watched
doing nothing."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    if args.check:
        from lsp_server.bench import replay_check

        return replay_check.run(args, settings)
    from lsp_server.bench.plot import need_matplotlib, plot_replay
    from lsp_server.engine.providers import default_threads

    if args.plot is not None:
        need_matplotlib()
    traces, origin = load_traces(args.keys or (_FULL if args.full else _KEYS), args.data)
    num_keys = sum(len(trace.edits) for trace in traces)
    with private_server(settings.model) as client:
        client.start_session({})
        with tqdm(total=num_keys, unit="key", mininterval=1.0) as bar:
            sessions, slips = [], []
            for trace in traces:
                sessions.append(_replay(client, trace, bar.update))
                made = sessions[-1].made_in_time()
                slips.append(_replay(client, slips_of(trace, made), lambda: None))
        burst_generations = _burst(client, burst_of(traces[0]))
        idle_percent = _idle_percent(client)
        client.close()
    result: dict[str, Any] = {
        "suite": "replay",
        "machine": machine(settings.engine.threads or default_threads()),
        "model": settings.model,
        "data": origin,
        **figures_of(sessions, slips),
        "burst_generations": burst_generations,
        "idle_cpu_percent": round(idle_percent, 3),
    }
    result["missed"] = missed(result)
    if args.plot is not None:
        plot_replay([session.points() for session in sessions], args.plot)
    publish(result, page(result), json_only=args.json)
    return 1 if result["missed"] else 0


def _replay(client: StdioClient, trace: Trace, typed: Callable[[], object]) -> Session:
    uri = _uri(trace)
    client.open(uri, trace.language_id, trace.text)
    time.sleep(_SETTLE_SECONDS)
    before = _probe(client, beat=True)
    asked = type_trace(client, uri, trace, typed)
    after = _probe(client, beat=False)
    client.close_document(uri)
    return Session(trace, asked, after, after["cpu_s"] - before["cpu_s"])


def _burst(client: StdioClient, trace: Trace) -> int:
    """Generations started. The prompt has been read before: else the first generation would still
    be reading it at the last key. The document stays open."""
    uri, text = _uri(trace), trace.text
    client.open(uri, trace.language_id, text)
    client.request("textDocument/inlineCompletion", asking(uri, 1, text, len(text)))
    time.sleep(_SETTLE_SECONDS)
    _probe(client, beat=False)
    type_trace(client, uri, trace, lambda: None)
    return int(_probe(client, beat=False)["generations"])


def _uri(trace: Trace) -> str:
    return f"file:///replay/{trace.file_name}"


def _probe(client: StdioClient, *, beat: bool) -> dict[str, Any]:
    figures: dict[str, Any] = client.request(probe.REQUEST, {"beat": beat})
    return figures


def _idle_percent(client: StdioClient) -> float:
    time.sleep(_SETTLE_SECONDS)
    before = _probe(client, beat=False)["cpu_s"]
    time.sleep(_IDLE_SECONDS)
    return float(100 * (_probe(client, beat=False)["cpu_s"] - before) / _IDLE_SECONDS)


def burst_of(trace: Trace) -> Trace:
    """A line typed without a pause at the end of the file of `trace`."""
    text = trace.text.rstrip("\n") + "\n"
    edits = tuple(
        Edit((Patch(len(text) + i, 0, key),), len(text) + i + 1, i * _BURST_SECONDS)
        for i, key in enumerate(BURST)
    )
    return Trace(f"burst-{trace.file_name}", trace.language_id, text, edits, ())
