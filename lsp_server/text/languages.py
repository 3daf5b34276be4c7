"""Languages by the names that editors give them: family, comments, and what a text leaves open.

Knows no grammar; what it tells holds for every file, with tree-sitter or without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Zone(StrEnum):
    """What a place in a text is part of."""

    CODE = "code"
    COMMENT = "comment"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Language:
    name: str
    family: str
    """Languages whose files can use each other's code share one."""
    line_comment: str
    """Begins a comment that ends with its line; empty where there is none."""
    block_comment: tuple[str, str] | None = None
    quotes: tuple[str, ...] = ('"', "'")
    """Begin and end a string, longest first."""
    stub: str = ""
    """Makes a declaration of a function's signature."""

    def comment(self, text: str) -> str:
        """One line of text as a comment."""
        if self.line_comment:
            return f"{self.line_comment} {text}"
        start, end = self.block_comment or ("#", "")
        return f"{start} {text} {end}".rstrip()

    def open_at_end(self, text: str) -> Zone:
        """What `text`, read from its beginning, leaves open: a comment, a string, or neither.

        A line comment that the last line is in is open. A quote of one character ends with its
        line, but for backticks.
        """
        return self.left_open(text)[0]

    def left_open(self, text: str) -> tuple[Zone, int]:
        """The same, and where what is open begins; the end of the text where nothing is."""
        position = 0
        while (found := _opener(self).search(text, position)) is not None:
            mark = found[0]
            end = _end_of(self, mark).match(text, found.end())
            if end is None:
                return Zone.STRING if mark in self.quotes else Zone.COMMENT, found.start()
            position = end.end()
        return Zone.CODE, len(text)

    def code_in(self, text: str) -> str:
        """`text`, read from its beginning, with blanks in place of its comments and strings."""
        code: list[str] = []
        position = 0
        while (found := _opener(self).search(text, position)) is not None:
            end = _end_of(self, found[0]).match(text, found.end())
            start, stop = found.start(), len(text) if end is None else end.end()
            code += text[position:start], " " * (stop - start)
            position = stop
        return "".join(code) + text[position:]


@cache
def _opener(language: Language) -> re.Pattern[str]:
    marks = [*language.quotes, language.line_comment, *(language.block_comment or ("",))[:1]]
    marks = sorted(filter(None, marks), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, marks)) or "(?!)")


@cache
def _end_of(language: Language, mark: str) -> re.Pattern[str]:
    """What ends the comment or string that `mark` begins, with all that comes before."""
    if mark == language.line_comment:
        return re.compile(r"[^\r\n]*[\r\n]")
    if language.block_comment and mark == language.block_comment[0]:
        return re.compile(r"[\s\S]*?" + re.escape(language.block_comment[1]))
    end = f"{mark}|[\r\n]" if len(mark) == 1 and mark != "`" else mark
    return re.compile(rf"(?:(?!{end}|\\)[\s\S]|\\[\s\S])*(?:{end})")


_C = ("/*", "*/")
_HTML = ("<!--", "-->")
_ALL_QUOTES = ('"', "'", "`")
_TRIPLE = ('"""', "'''", '"', "'")

_LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "python", "#", None, _TRIPLE, stub=" ..."),
        Language("javascript", "javascript", "//", _C, _ALL_QUOTES, stub=";"),
        Language("typescript", "javascript", "//", _C, _ALL_QUOTES, stub=";"),
        Language("tsx", "javascript", "//", _C, _ALL_QUOTES, stub=";"),
        Language("go", "go", "//", _C, _ALL_QUOTES),
        # A lone ' begins a lifetime.
        Language("rust", "rust", "//", _C, ('"',), stub=";"),
        Language("java", "jvm", "//", _C, ('"""', '"', "'"), stub=";"),
        Language("kotlin", "jvm", "//", _C, ('"""', '"', "'")),
        Language("scala", "jvm", "//", _C, ('"""', '"', "'")),
        Language("groovy", "jvm", "//", _C, _TRIPLE),
        Language("c", "c", "//", _C, stub=";"),
        Language("cpp", "c", "//", _C, stub=";"),
        Language("csharp", "dotnet", "//", _C, ('"""', '"', "'"), stub=";"),
        Language("swift", "swift", "//", _C, ('"""', '"')),
        Language("dart", "dart", "//", _C, _TRIPLE),
        Language("zig", "zig", "//", None),
        Language("ruby", "ruby", "#"),
        Language("php", "php", "//", _C, stub=";"),
        Language("shell", "shell", "#"),
        Language("powershell", "powershell", "#", ("<#", "#>")),
        Language("perl", "perl", "#"),
        Language("r", "r", "#"),
        Language("julia", "julia", "#", ("#=", "=#"), ('"""', '"')),
        Language("elixir", "elixir", "#", None, _TRIPLE),
        Language("lua", "lua", "--"),
        Language("sql", "sql", "--", _C),
        Language("haskell", "haskell", "--", ("{-", "-}"), ('"',)),
        Language("ocaml", "ocaml", "", ("(*", "*)"), ('"',)),
        Language("clojure", "lisp", ";", None, ('"',)),
        Language("lisp", "lisp", ";", None, ('"',)),
        Language("erlang", "erlang", "%", None, ('"',)),
        Language("latex", "latex", "%", None, ()),
        Language("css", "css", "", _C),
        Language("scss", "css", "//", _C),
        Language("html", "html", "", _HTML, ()),
        Language("xml", "html", "", _HTML, ()),
        Language("vue", "javascript", "", _HTML, ()),
        Language("svelte", "javascript", "", _HTML, ()),
        Language("markdown", "markdown", "", _HTML, ()),
        Language("toml", "toml", "#"),
        Language("yaml", "yaml", "#"),
        Language("dockerfile", "dockerfile", "#"),
        Language("make", "make", "#", None, ()),
    )
}

_ALIASES = {
    "cs": "csharp",
    "cuda": "cpp",
    "cuda-cpp": "cpp",
    "h": "c",
    "hpp": "cpp",
    "cc": "cpp",
    "cxx": "cpp",
    "hh": "cpp",
    "objc": "c",
    "objective-c": "c",
    "objcpp": "cpp",
    "objective-cpp": "cpp",
    "js": "javascript",
    "jsx": "javascript",
    "mjs": "javascript",
    "cjs": "javascript",
    "javascriptreact": "javascript",
    "ts": "typescript",
    "mts": "typescript",
    "cts": "typescript",
    "typescriptreact": "tsx",
    "py": "python",
    "pyi": "python",
    "rs": "rust",
    "rb": "ruby",
    "sh": "shell",
    "bash": "shell",
    "zsh": "shell",
    "shellscript": "shell",
    "ps1": "powershell",
    "pl": "perl",
    "jl": "julia",
    "ex": "elixir",
    "exs": "elixir",
    "hs": "haskell",
    "ml": "ocaml",
    "clj": "clojure",
    "el": "lisp",
    "elisp": "lisp",
    "emacs-lisp": "lisp",
    "commonlisp": "lisp",
    "scheme": "lisp",
    "erl": "erlang",
    "tex": "latex",
    "less": "scss",
    "sass": "scss",
    "htm": "html",
    "md": "markdown",
    "kt": "kotlin",
    "kts": "kotlin",
    "yml": "yaml",
    "makefile": "make",
}
"""Other ids that editors send, and suffixes of files, where they differ from the name."""


def is_known(language_id: str, uri: str = "") -> bool:
    """Whether there is more than a guess at a language's comments and quotes."""
    return language_of(language_id, uri).name in _LANGUAGES


def language_of(language_id: str, uri: str = "") -> Language:
    """By the editor's id, else by the file's suffix; what nobody knows has comments with `#`."""
    name = (language_id or uri.rpartition("/")[2].rpartition(".")[2]).lower()
    known = _LANGUAGES.get(_ALIASES.get(name, name))
    return known or Language(name, name, "#", None, ())
