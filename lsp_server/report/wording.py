"""Numbers, times and codes as people read them."""

from __future__ import annotations

REASONS = {
    "excluded": "file left alone by the settings",
    "secret": "file that may hold secrets",
    "too-large": "file too large",
    "binary": "file that is no text",
    "not-open": "document not open",
    "model-loading": "model still loading",
    "model-missing": "no model",
    "paused": "paused",
    "cancelled": "cancelled by the editor",
    "superseded": "overtaken by a newer request",
    "stale": "text changed meanwhile",
    "deadline": "time was up",
    "mid-word": "cursor inside a word",
    "mid-line": "code follows on the line",
    "empty": "model had nothing to say",
    "duplicate-suffix": "already stood behind the cursor",
    "repetition": "model repeated itself",
    "unbalanced": "would leave brackets unbalanced",
    "low-confidence": "model not sure enough",
    "prose": "comment or prose",
    "selected-mismatch": "did not fit the chosen entry",
    "engine-error": "engine failed",
}
_ORIGINS = {"engine": "engine", "cache": "cache", "typed_through": "typed through"}


def reason_name(reason: str) -> str:
    """A few words for a reason's code; the code itself where it is unknown."""
    return REASONS.get(reason, reason)


def origin_name(origin: str) -> str:
    return _ORIGINS.get(origin, origin)


def number(count: int) -> str:
    """`12,345`"""
    return f"{count:,}"


def counted(count: int, one: str, several: str = "") -> str:
    """`1 answer`, `12 answers`."""
    return f"{number(count)} {one if count == 1 else several or one + 's'}"


def percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"


def time(ms: float | None) -> str:
    """`0.8 ms`, `45 ms`, `1.2 s`."""
    if ms is None:
        return "-"
    if ms >= 995:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.0f} ms" if ms >= 9.5 else f"{ms:.1f} ms"
