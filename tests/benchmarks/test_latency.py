"""Latency as ratios of interleaved pairs from one run, so that the machine's speed cancels out.

The bounds are wide: they catch a lost cache or a copy of the document per key, not a bad day. The
figures are printed and kept in `out/latency.json`.
"""

from __future__ import annotations

import json
import statistics
import time

import pytest

from lsp_server.bench.client import StdioClient
from tests.benchmarks.figures import echo, keep, ms
from tests.fake_model import AdversarialDrafter

FUNCTION = '''def total_{n}(values, start={n}):
    """Add up the values, beginning with start."""
    total = start
    for value in values:
        total += value
    return total


'''
REPETITIVE = "".join(FUNCTION.format(n=n) for n in range(6)) + FUNCTION.format(n=6)[:90]


def opened(client: StdioClient, uri: str, text: str) -> None:
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": document})


def ask(client: StdioClient, uri: str, text: str) -> object:
    lines = text.split("\n")
    return client.request(
        "textDocument/inlineCompletion",
        {
            "textDocument": {"uri": uri},
            "position": {"line": len(lines) - 1, "character": len(lines[-1])},
            "context": {"triggerKind": 2},
        },
    )


def explain(client: StdioClient, uri: str) -> dict:
    return client.request("tabahead/explain", {"textDocument": {"uri": uri}})


def start(model: str) -> StdioClient:
    client = StdioClient(model)
    client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.notify("initialized", {})
    return client


@pytest.mark.model
def test_lookup_is_no_slower_than_plain_where_the_file_repeats_itself(default_model_folder):
    from lsp_server.bench.engine import Bench
    from lsp_server.engine.drafters.prompt_lookup import PromptLookup
    from lsp_server.engine.types import DecodeParams
    from lsp_server.settings.tree import Settings

    bench = Bench(Settings(model=str(default_model_folder)))
    prompt = bench.backend.tokenizer.encode(REPETITIVE)
    params, lookup = DecodeParams(max_new_tokens=24), PromptLookup()

    def plain() -> None:
        bench.run(prompt, params)

    def speculative() -> None:
        bench.run(prompt, params, drafter=lookup, controller=bench.controller)

    plain(), speculative()
    pairs = [(ms(plain), ms(speculative)) for _ in range(5)]
    plain_ms, lookup_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    keep("lookup_against_plain", plain_ms=plain_ms, lookup_ms=lookup_ms)
    assert lookup_ms < 1.05 * plain_ms


@pytest.mark.model
def test_an_always_wrong_drafter_leaves_plain_speed_once_it_is_found_out(default_model_folder):
    """The aim is 0.95 at the median, which is kept; it is judged by the best of each, and wider,
    since medians of so few runs swing by more than that on a busy machine."""
    from lsp_server.bench.engine import Bench
    from lsp_server.engine.types import DecodeParams
    from lsp_server.settings.tree import Settings

    bench = Bench(Settings(model=str(default_model_folder)))
    prompt, params = bench.backend.tokenizer.encode(REPETITIVE), DecodeParams(max_new_tokens=24)
    right = [*prompt, *bench.run(prompt, params).token_ids]
    wrong = AdversarialDrafter(right, "wrong", vocab=bench.slot.spec.vocab_size)
    proposed: list[int] = []

    def plain() -> None:
        bench.run(prompt, params)

    def drafted() -> None:
        run = bench.run(prompt, params, drafter=wrong, controller=bench.controller)
        assert [*prompt, *run.token_ids] == right
        proposed.append(sum(count["proposed"] for count in run.stats.sources.values()))

    drafted()
    pairs = [(ms(plain), ms(drafted)) for _ in range(9)]
    assert len(wrong.calls) > 9 * 20, "it was asked in every round"
    assert proposed[-1] == 0, "and is verified no more"
    speeds = [plain_ms / drafted_ms for plain_ms, drafted_ms in pairs]
    best = min(plain_ms for plain_ms, _ in pairs) / min(drafted_ms for _, drafted_ms in pairs)
    keep("always_wrong_against_plain", best_speed=best, median_speed=statistics.median(speeds))
    assert best > 0.9


@pytest.mark.model
def test_a_keystroke_reuses_the_cache_and_costs_less_than_half_a_cold_prompt(
    default_model_folder,
):
    client = start(str(default_model_folder))
    while explain_first(client)["reason"] == "model-loading":
        time.sleep(0.1)  # no message tells when the model is ready
    cold, warm = [], []
    for round_ in range(5):
        uri = f"untitled:round-{round_}.py"
        text = f"# {round_}\n{REPETITIVE}"
        opened(client, uri, text)
        cold.append(ms(lambda uri=uri, text=text: ask(client, uri, text)))
        assert explain(client, uri)["stats"]["reused_tokens"] < 64
        change_at = {"line": text.count("\n"), "character": len(text.rsplit("\n", 1)[1])}
        change = {"range": {"start": change_at, "end": change_at}, "text": "a"}
        version = {"uri": uri, "version": 2}
        client.notify(
            "textDocument/didChange", {"textDocument": version, "contentChanges": [change]}
        )
        warm.append(ms(lambda uri=uri, text=text: ask(client, uri, text + "a")))
        stats = explain(client, uri)["stats"]
        assert stats["reused_tokens"] >= stats["prompt_tokens"] - 8
    client.close()
    cold_ms, warm_ms = statistics.median(cold), statistics.median(warm)
    keep("keystroke_against_cold", cold_ms=cold_ms, keystroke_ms=warm_ms)
    assert warm_ms < 0.5 * cold_ms


def explain_first(client: StdioClient) -> dict:
    opened(client, "untitled:first.py", "x = ")
    ask(client, "untitled:first.py", "x = ")
    return explain(client, "untitled:first.py")


def test_the_protocol_costs_little_beside_an_echo(tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"after": "", "text": "done", "delay_ms": 0}]))
    client = start(f"scripted:{script}")
    uri, text = "untitled:echo.py", "print(\n" * 1000
    opened(client, uri, text)
    with echo() as bounce:
        assert ask(client, uri, text)["items"]
        pairs = [(ms(bounce), ms(lambda: ask(client, uri, text))) for _ in range(200)]
    client.close()
    echo_ms, server_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    keep("server_against_echo", echo_ms=echo_ms, server_ms=server_ms)
    assert server_ms < 100 * echo_ms
