"""The rules of ignore files as git reads them: one file's text in, the last rule that matches out.

The reference is git's own behaviour (`git check-ignore`), its oddities included; a test compares.
Everything is bytes, as in git. The time of a match is bounded: a pattern may come from a stranger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_RULES = 4096
"""Of one file; what comes behind them is not read."""

_SPECIAL = re.compile(rb"[*?\[\\]")
_CLASS_NAME = re.compile(rb"\[:([^\]]*):\]")
_CLASSES = {
    name.encode(): frozenset(byte for byte in range(128) if is_member(chr(byte)))
    for name, is_member in {
        "alnum": str.isalnum,
        "alpha": str.isalpha,
        "blank": " \t".__contains__,
        "cntrl": lambda c: not c.isprintable(),
        "digit": str.isdigit,
        "graph": lambda c: c.isprintable() and c != " ",
        "lower": str.islower,
        "print": str.isprintable,
        "punct": lambda c: c.isprintable() and not c.isalnum() and c != " ",
        "space": " \t\n\v\f\r".__contains__,
        "upper": str.isupper,
        "xdigit": "0123456789abcdefABCDEF".__contains__,
    }.items()
}
_SLASH = ord("/")
_SHORTEST = {b"*": b"[^/]*?", b"**/": b"(?:.*?/)??", b"**\\/": b".*?/"}
_LONGEST = {b"*": b"[^/]*", b"**": b".*", b"**/": b"(?:.*/)?", b"**\\/": b".*/"}
"""What a star stands for, two ways: where it may end first, and where last."""
_NO_BYTE = rb"(?!)"


@dataclass(frozen=True, slots=True)
class Rule:
    line: int
    """In its file, from 1."""
    text: str
    """As it stands there."""
    ignores: bool
    """False: what an earlier rule ignores is not ignored after all."""
    only_folders: bool
    only_name: bool
    """Matches the last part of a path, in whatever folder."""
    pattern: re.Pattern[bytes]

    def matches(self, path: bytes, is_folder: bool) -> bool:
        """`path` is relative to the rule's file, with `/` between its parts."""
        if self.only_folders and not is_folder:
            return False
        name = path.rpartition(b"/")[2] if self.only_name else path
        return self.pattern.fullmatch(name) is not None


def parse(data: bytes, ignore_case: bool = False) -> tuple[Rule, ...]:
    """The rules of an ignore file, at most `MAX_RULES`."""
    rules: list[Rule] = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        line = _without_trailing_blanks(line.removesuffix(b"\r"))
        if line and not line.startswith(b"#"):
            rules.append(_rule(line, number, ignore_case))
            if len(rules) == MAX_RULES:
                break
    return tuple(rules)


def last_match(rules: Sequence[Rule], path: bytes, is_folder: bool) -> Rule | None:
    """The rule that decides about a path: the last one that matches."""
    return next((rule for rule in reversed(rules) if rule.matches(path, is_folder)), None)


def _without_trailing_blanks(line: bytes) -> bytes:
    """A blank behind a backslash stays."""
    end = len(line.rstrip(b" "))
    num_backslashes = end - len(line[:end].rstrip(b"\\"))
    return line[: end + 1] if num_backslashes % 2 else line[:end]


def _rule(line: bytes, number: int, ignore_case: bool) -> Rule:
    pattern = line.removeprefix(b"!")
    only_folders = pattern.endswith(b"/")
    if only_folders:
        pattern = pattern[:-1]
    only_name = b"/" not in pattern
    return Rule(
        line=number,
        text=line.decode("utf-8", "replace"),
        ignores=not line.startswith(b"!"),
        only_folders=only_folders,
        only_name=only_name,
        pattern=_translate(pattern if only_name else pattern.removeprefix(b"/"), ignore_case),
    )


def _translate(pattern: bytes, ignore_case: bool) -> re.Pattern[bytes]:
    """The regular expression of a pattern; one that is no pattern never matches."""
    special = _SPECIAL.search(pattern)
    literal = pattern if special is None else pattern[: special.start()]
    try:
        regex = re.escape(literal) + _regex(pattern[len(literal) :])
    except ValueError:
        regex = _NO_BYTE
    return re.compile(regex, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _regex(glob: bytes) -> bytes:
    """What stands behind the literal beginning of a pattern. Raises ValueError for no pattern."""
    runs = _split(list(_tokens(glob)), (b"**", b"**/", b"**\\/"))
    return _in_order([(opening, _run_regex(tokens)) for opening, tokens in runs])


def _run_regex(tokens: Sequence[bytes]) -> bytes:
    """Of what stands between two double stars: parts of a path with single stars in them."""
    return b"/".join(
        _in_order([(star, b"".join(rest)) for star, rest in _split(part, (b"*",))])
        for _, part in _split(tokens, (b"/",))
    )


def _in_order(pieces: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Each star and what must follow it. But for the last, the first place that fits is taken for
    good (an atomic group): what comes then has the most room, so no other place need be tried."""
    (_, first), *others = pieces
    regex = first
    for star, following in others[:-1]:
        regex += b"(?>" + _SHORTEST[star] + following + b")"
    for star, following in others[-1:]:
        regex += _LONGEST[star] + following
    return regex


def _split(tokens: Sequence[bytes], at: Sequence[bytes]) -> list[tuple[bytes, list[bytes]]]:
    """Pieces between the tokens in `at`, each with the one before it; the first has none."""
    pieces: list[tuple[bytes, list[bytes]]] = [(b"", [])]
    for token in tokens:
        if token in at:
            pieces.append((token, []))
        else:
            pieces[-1][1].append(token)
    return pieces


def _tokens(glob: bytes) -> Iterator[bytes]:
    """Stars as they are, all else as regular expressions of one byte."""
    at = 0
    while at < len(glob):
        byte = glob[at : at + 1]
        if byte == b"*":
            token, at = _stars(glob, at)
        elif byte == b"?":
            token, at = b"[^/]", at + 1
        elif byte == b"[":
            token, at = _bracket(glob, at + 1)
        else:
            at += byte == b"\\"
            if at == len(glob):
                raise ValueError("a backslash with nothing behind it")
            token, at = re.escape(glob[at : at + 1]), at + 1
        yield token


def _stars(glob: bytes, at: int) -> tuple[bytes, int]:
    """Two and more mean folders only as a part of the path of their own."""
    end = len(glob) - len(glob[at:].lstrip(b"*"))
    if end - at >= 2 and (at == 0 or glob[at - 1 : at] == b"/"):
        for token in (b"**/", b"**\\/"):
            if glob.startswith(token[2:], end):
                return token, end + len(token) - 2
        if end == len(glob):
            return b"**", end
    return b"*", end


def _bracket(glob: bytes, at: int) -> tuple[bytes, int]:
    """The set behind `[`, and where it ends. Raises ValueError where it does not."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    low = None
    """A byte that a `-` may make the beginning of a range."""
    is_first = True
    while is_first or glob[at : at + 1] != b"]":
        is_first = False
        is_range = low is not None and glob[at : at + 1] == b"-"
        if (found := _CLASS_NAME.match(glob, at)) is not None:
            members |= _class(found[1])
            low, at = None, found.end()
        elif low is not None and is_range and glob[at + 1 : at + 2] not in (b"", b"]"):
            high, at = _byte(glob, at + 1)
            members.update(range(low, high + 1))
            low = None
        else:
            low, at = _byte(glob, at)
            members.add(low)
    if negated:
        members = set(range(256)) - members
    members.discard(_SLASH)
    if not members:
        return _NO_BYTE, at + 1
    return b"[" + b"".join(b"\\x%02x" % member for member in sorted(members)) + b"]", at + 1


def _class(name: bytes) -> frozenset[int]:
    if name not in _CLASSES:
        raise ValueError("a class of characters that does not exist")
    return _CLASSES[name]


def _byte(glob: bytes, at: int) -> tuple[int, int]:
    """A byte of a set, which a backslash may precede, and where the next begins."""
    at += glob[at : at + 1] == b"\\"
    if at >= len(glob):
        raise ValueError("a set without its end")
    return glob[at], at + 1
