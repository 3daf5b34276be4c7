"""Keys and tokens by their look: whole documents that hold a key, and single values to leave out.

Texts are read line by line but for private keys, so that a changed text costs its changed lines.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

Span = tuple[int, int]
"""Offsets of a piece of text."""

PLACEHOLDER = "***"
"""In the place of a value that looks like a key, a token or a password."""

_KEY_HEADERS = ("PRIVATE KEY", "PuTTY-User-Key-File")
_KEY_WINDOW = 500
"""Characters behind a key's header within which its body begins."""
_KEY_BODY = re.compile(r"[A-Za-z0-9+/]{40,}")
_WORD = re.compile(r"[a-z]{4,}")

_TOKENS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (tuple(starts.split()), re.compile(pattern, re.ASCII))
    for starts, pattern in (
        ("AKIA ASIA", r"[A-Z]{4}[A-Z2-7]{16}(?![A-Za-z0-9])"),  # Amazon
        ("ghp_ gho_ ghu_ ghs_ ghr_", r"gh._[A-Za-z0-9]{36,255}"),  # GitHub
        ("github_pat_", r"github_pat_\w{22,255}"),
        ("glpat- glrt- gldt- glptt-", r"gl[a-z]+-[\w-]{20,255}"),  # GitLab
        ("xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,255}"),  # Slack
        ("xapp-", r"xapp-\d-[A-Za-z0-9-]{20,255}"),
        ("hooks.slack.com/services/", r"hooks.slack.com/services/\w+/\w+/\w{10,255}"),
        ("sk-", r"sk-(?=[\w-]{0,64}\d)(?=[\w-]{0,64}[A-Z])[\w-]{20,255}"),  # OpenAI, Anthropic
        ("sk_live_ rk_live_ sk_test_ rk_test_", r".k_[a-z]{4}_[A-Za-z0-9]{16,255}"),  # Stripe
        ("whsec_", r"whsec_[A-Za-z0-9+/]{24,255}=*"),
        ("AIza", r"AIza[\w-]{35}(?![\w-])"),  # Google
        ("GOCSPX-", r"GOCSPX-[\w-]{20,64}"),
        ("ya29.", r"ya29\.[\w-]{20,512}"),
        ("eyJ", r"eyJ[\w-]{8,4096}\.eyJ[\w-]{8,4096}\.[\w-]{8,4096}"),  # JSON web tokens
        ("npm_", r"npm_[A-Za-z0-9]{36}(?!\w)"),
        ("pypi-AgE", r"pypi-AgE[\w-]{50,512}"),
        ("hf_", r"hf_[A-Za-z0-9]{30,64}(?!\w)"),  # Hugging Face
        ("SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),  # SendGrid
        ("dop_v1_", r"dop_v1_[a-f0-9]{64}"),  # DigitalOcean
        ("dckr_pat_", r"dckr_pat_[\w-]{27}"),  # Docker
        ("shpat_ shpca_ shppa_ shpss_", r"shp.._[A-Fa-f0-9]{32}"),  # Shopify
        ("hvs. hvb.", r"hv.\.[\w-]{24,300}"),  # Vault
        ("dapi", r"dapi[a-f0-9]{32}(?!\w)"),  # Databricks
        ("gsk_", r"gsk_[A-Za-z0-9]{52}(?!\w)"),  # Groq
        ("r8_", r"r8_[A-Za-z0-9]{37}(?!\w)"),  # Replicate
        ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    )
)
"""How a token begins, and how it goes on; from the services' own documentation."""

_CREDENTIALS_IN_URL = re.compile(r"://[^\s/:@\"'<>{}$%]{1,64}:([^\s/@\"'<>{}$%]{3,128})@")

_AUTHORIZATION = re.compile(r"(?:Bearer|Basic) +([\w.~+/-]{16,4096}=*)", re.ASCII)

_NAMES = (
    *("pass", "Pass", "PASS", "pwd", "PWD", "redential", "REDENTIAL"),
    *("ecret", "ECRET", "oken", "OKEN", "_key", "_KEY", "-key", "Key", "apikey", "APIKEY"),
)
"""How the name of a variable ends, or goes on, whose value may be a password."""

_ASSIGNED = re.compile(
    r"[\w.-]{0,40}[\"'\])]{0,2}[ \t]{0,8}(?::[ \t]?[\w\[\]|. ]{1,40}[ \t]?(?==))?"
    r"(?:=>|:=|==?|:|\()[ \t]{0,8}"
    r"(?:[rbuf]{0,2}[\"'`](?P<quoted>[^\"'`\s]{8,512})[\"'`]"
    r"|(?P<bare>[^\s\"'`()\[\]{}<>$,;]{16,512})[ \t]*(?=$|[\r\n#;,\"'`]))"
)
_SEPARATORS = str.maketrans("", "", "-_./:@ ")
"""What joins words to names, paths and addresses."""


def has_private_key(text: str) -> bool:
    """A key's header with a body behind it; a header alone is what code about keys holds."""
    for header in _KEY_HEADERS:
        at = text.find(header)
        while at >= 0:
            window = text[at + len(header) : at + len(header) + _KEY_WINDOW]
            if any(_is_mixed(found[0]) for found in _KEY_BODY.finditer(window)):
                return True
            at = text.find(header, at + 1)
    return False


def redact(text: str) -> str:
    """The text with a placeholder for each value that looks secret; empty where it has a key.

    Lines stay lines. Linear: some 30 ms a megabyte.
    """
    return "" if has_private_key(text) else _replaced(text, _merged(_secrets(text)))


class Redactor:
    """`redact` for texts that come again and again, a little changed. For one thread."""

    def __init__(self, max_texts: int = 64) -> None:
        self._max_texts = max_texts
        self._known: OrderedDict[str, tuple[str, list[Span]]] = OrderedDict()
        """Key -> the text as it came last, and the secrets in it."""

    def __len__(self) -> int:
        return len(self._known)

    def redact(self, key: str, text: str) -> str:
        """`redact(text)`; of a text known by `key`, the lines that have changed are read."""
        before, spans = self._known.pop(key, ("", []))
        if has_private_key(text):
            return ""
        spans = _after_change(before, spans, text)
        self._known[key] = (text, spans)
        if len(self._known) > self._max_texts:
            self._known.popitem(last=False)
        return _replaced(text, spans)

    def forget(self, key: str) -> None:
        self._known.pop(key, None)


def _after_change(before: str, spans: list[Span], text: str) -> list[Span]:
    """Where the secrets of `text` are, given those of `before`: whole lines that both begin or end
    with are not read again."""
    head = text.rfind("\n", 0, _common_head(before, text)) + 1
    tail = min(_common_tail(before, text), len(before) - head, len(text) - head)
    line = text.find("\n", len(text) - tail)
    stop = len(text) if line < 0 else line
    moved = len(text) - len(before)
    changed = _merged(_secrets(text[head:stop]))
    return [
        *(span for span in spans if span[1] <= head),
        *((head + start, head + end) for start, end in changed),
        *((start + moved, end + moved) for start, end in spans if start + moved >= stop),
    ]


def _merged(spans: Iterable[Span]) -> list[Span]:
    """In order, none touching another."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _replaced(text: str, spans: Sequence[Span]) -> str:
    if not spans:
        return text
    starts = (start for start, _ in spans)
    kept = zip((0, *(end for _, end in spans)), (*starts, len(text)), strict=True)
    return PLACEHOLDER.join(text[start:end] for start, end in kept)


def _secrets(text: str) -> Iterator[Span]:
    for starts, pattern in _TOKENS:
        for start in starts:
            at = text.find(start)
            while at >= 0:
                found = None if _continues_word(text, at) else pattern.match(text, at)
                if found is not None:
                    yield found.span()
                at = text.find(start, found.end() if found else at + 1)
    at = text.find("://")
    while at >= 0:
        found = _CREDENTIALS_IN_URL.match(text, at)
        if found is not None:
            yield found.span(1)
        at = text.find("://", at + 1)
    for scheme in ("Bearer ", "Basic "):
        at = text.find(scheme)
        while at >= 0:
            found = _AUTHORIZATION.match(text, at)
            if found is not None and is_random(found[1]) and sum(map(str.isdigit, found[1])) > 2:
                yield found.span(1)
            at = text.find(scheme, at + 1)
    for name in _NAMES:
        at = text.find(name)
        while at >= 0:
            at += len(name)
            found = _ASSIGNED.match(text, at)
            if found is not None:
                quoted, bare = found["quoted"], found["bare"]
                if quoted is not None and is_random(quoted):
                    yield found.span("quoted")
                elif bare is not None and is_random(bare) and sum(map(str.isdigit, bare)) > 2:
                    yield found.span("bare")
            at = text.find(name, at)


def _continues_word(text: str, at: int) -> bool:
    return at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")


def is_random(value: str) -> bool:
    """Has a generator, or a person who thinks of a password, made this?

    Characters of several kinds that alternate, without much repetition. Names, paths, patterns and
    phrases are none; that a plain word is somebody's password cannot be seen.
    """
    if len(value) < 8 or any(bracket in value for bracket in "[{<"):
        return False
    kinds = [_kind(character) for character in value.translate(_SEPARATORS)]
    least = 3 if len(value) < 16 else 2
    changes = sum(one != next_one for one, next_one in pairwise(kinds))
    capitals = sum(pair == ("A", "a") for pair in pairwise(kinds))  # as in words of names
    return (
        len(set(kinds)) >= least
        and (changes - capitals) / len(kinds) >= 0.25
        and _entropy(value) >= 2.5
    )


def _kind(character: str) -> str:
    if character.isdigit():
        return "1"
    if character.islower():
        return "a"
    return "A" if character.isalpha() else "!"


def _entropy(value: str) -> float:
    """Bits a character, by the frequencies in the value itself."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())


def _is_mixed(value: str) -> bool:
    """Digits and letters of both cases, and not mostly words, as names and paths are."""
    num_in_words = sum(map(len, _WORD.findall(value)))
    return (
        any(map(str.isdigit, value))
        and any(map(str.islower, value))
        and not value.islower()
        and 2 * num_in_words < len(value)
    )


def _common_head(one: str, other: str) -> int:
    """Characters that both begin with: by halves, since slices compare fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_tail(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
