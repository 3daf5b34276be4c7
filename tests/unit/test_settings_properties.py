"""Settings of any content: no layer stops the server, and a workspace only ever narrows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lsp_server.settings.layers import Layer, resolve
from lsp_server.settings.tree import ADDING, LOWERING, WORKSPACE_KEYS, Settings, keys_of

KEYS = {key.name: key for key in keys_of(Settings)}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
likely_values = st.one_of(
    st.sampled_from(["line", "block", "auto", "none", "lookup", "*.md", "markdown", "debug", ""]),
    st.lists(st.sampled_from(["*.md", "a/", "python", "lookup"]), max_size=3),
    st.integers(1, 100_000_000),
    st.booleans(),
    json_values,
)
layers = st.dictionaries(
    st.sampled_from([*KEYS, "deadline_ms", "engine", "maxTokens"]) | st.text(max_size=12),
    likely_values,
    max_size=8,
)


def value(settings: Settings, name: str) -> Any:
    found: Any = settings
    for part in name.split("."):
        found = getattr(found, part)
    return found


@given(st.lists(layers, min_size=1, max_size=4))
def test_no_content_of_any_layer_is_a_reason_to_fail(contents):
    """All faults are warnings, and every value is one that may be set."""
    loaded = resolve([Layer(f"layer {n}", content) for n, content in enumerate(contents)])
    assert all(isinstance(warning, str) and warning for warning in loaded.warnings)
    again = {name: value(loaded.settings, name) for name in KEYS}
    exact = resolve([Layer("all", again, must_be_right=True)])
    assert exact.settings == loaded.settings
    assert exact.warnings == ()


@given(layers, layers, layers)
def test_a_workspace_only_narrows(user, workspace, client):
    below, above = Layer("user", user), Layer("client", client)
    without = resolve([below, above]).settings
    with_it = resolve([below, Layer("workspace", workspace, narrowing=True), above]).settings
    for name in KEYS:
        then, now = value(without, name), value(with_it, name)
        if name in ADDING:
            assert set(now) >= set(then)
        elif name in LOWERING:
            assert now <= then
        elif name not in WORKSPACE_KEYS:
            assert now == then


@given(layers, layers)
def test_a_higher_layer_wins_and_lists_of_what_is_left_alone_add_up(low, high):
    merged = resolve([Layer("low", low), Layer("high", high)]).settings
    alone, under = resolve([Layer("high", high)]).settings, resolve([Layer("low", low)]).settings
    for name in KEYS:
        if name in ADDING:
            assert set(value(merged, name)) == {*value(alone, name), *value(under, name)}
        elif value(alone, name) != KEYS[name].default:
            assert value(merged, name) == value(alone, name)
