"""Text to syntax tree by the grammars of tree-sitter, each a package of its own.

Nothing is downloaded here: a grammar is installed (extra `syntax`) or there is none.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Point, Tree

_log = logging.getLogger(__name__)

PACKAGES = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "shell": ("tree_sitter_bash", "language"),
}
"""Name of a language -> its package and the function in it."""

_BYTES_PER_STEP = 40
_LEAST_STEPS = 64
"""The parser tells of its progress about every 100 bytes of right code, every 10 bytes of text that
makes it try everything, which can take seconds."""
_LEAST_SECONDS = 0.1
_SECONDS_PER_BYTE = 1e-6
"""Processor time; right code takes a tenth of that a byte, another language's up to 3e-6."""


class _Scratch(threading.local):
    """What the parser reads from. It keeps a reference to all that it is ever given (tree-sitter
    0.26), so a few buffers are given to it again and again: one of each power of two, so that every
    text is made of them."""

    def __init__(self) -> None:
        self.buffers = [bytearray(1 << power) for power in range(12, -1, -1)]


_scratch = _Scratch()


@cache
def load(name: str) -> Language | None:
    """The grammar of a language as `languages` names it; None where there is none to use."""
    if name not in PACKAGES:
        return None
    package, function = PACKAGES[name]
    try:
        import tree_sitter

        module = importlib.import_module(package)
    except ImportError:
        return None
    try:
        return tree_sitter.Language(getattr(module, function)())
    except (AttributeError, TypeError, ValueError) as error:
        _log.warning(
            "The grammar in %s does not fit tree-sitter %s (%s); update both. Until then %s is"
            " judged by its indentation.",
            *(package, tree_sitter.__version__, error, name),
        )
        return None


def parse(grammar: Language, source: bytes) -> Tree | None:
    """The tree of `source`; None where it would take long, so far is the text from the language.

    Other threads may run in between. The limit that counts is one of the parser's own steps, so
    that the same text gives the same answer; the clock is for what no language knows at all.
    """
    from tree_sitter import Parser

    num_steps = 0
    most_steps = _LEAST_STEPS + len(source) // _BYTES_PER_STEP
    deadline = time.thread_time() + _LEAST_SECONDS + _SECONDS_PER_BYTE * len(source)

    def read(position: int, _: Point) -> bytearray | bytes:
        rest = len(source) - position
        for buffer in _scratch.buffers:
            if len(buffer) <= rest:
                buffer[:] = source[position : position + len(buffer)]
                return buffer
        return b""

    def is_too_long(_: int, has_error: bool) -> bool:
        nonlocal num_steps
        num_steps += 1
        return num_steps > most_steps or time.thread_time() > deadline

    try:
        return Parser(grammar).parse(read, progress_callback=is_too_long)
    except ValueError:
        return None
