"""All settings: their defaults, their meaning, and what a workspace may set of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from lsp_server.completion import Eagerness, Mode

SOURCES = ("lookup", "corpus", "heads", "draft", "early_exit")
LOG_LEVELS = ("error", "warning", "info", "debug")


def _number(default: float, low: float, high: float) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


def _text(default: str) -> Any:
    """A string that may be empty."""
    return field(default=default, metadata={"empty": True})


def _choice(default: Any, choices: Sequence[str]) -> Any:
    return field(default=default, metadata={"choices": tuple(choices)})


@dataclass(frozen=True, slots=True)
class DeadlineSettings:
    automatic: int = _number(1000, 10, 60_000)
    """Time to decode while typing, from the first token on; what is whole by then is shown."""
    invoked: int = _number(5000, 10, 600_000)
    """The same for a completion asked for by key or command."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    threads: int = _number(0, 0, 1024)
    """Threads of the engine; 0: chosen so that the editor stays responsive."""
    provider: str = "auto"
    """ONNX Runtime execution provider, such as `cpu` or `cuda`; `auto`: the best that works."""
    kv_memory_mb: int = _number(192, 16, 1_000_000)
    """Memory for the key-value caches of recent documents."""
    slot_tokens: int = _number(2048, 256, 1_000_000)
    """Tokens that the cache of one document holds."""


@dataclass(frozen=True, slots=True)
class Settings:
    model: str = "smollm2-135m"
    """Name in the catalogue, a model folder, or `scripted:FILE`."""
    mode: Mode = Mode.AUTO
    """How much to complete: `line`, `block`, or `auto` for what the place suggests."""
    eagerness: Eagerness = Eagerness.BALANCED
    """How sure the model must be for its text to be shown while typing: `eager`, `balanced` or
    `quiet`. What is asked for by key or command is always shown."""
    prose: bool = False
    """Complete while typing also in comments and documentation, and in documents of prose."""
    num_items: int = _number(3, 1, 5)
    """Most items when asked by key or command: the likeliest text, and others that part from it."""
    max_tokens: int = _number(64, 1, 1024)
    """Most tokens of one completion."""
    sources: tuple[str, ...] = _choice(("lookup", "corpus"), SOURCES)
    """Where drafts come from, of `lookup`, `corpus`, `heads`, `draft`, `early_exit`; `none`: no
    speculation."""
    draft_model: str = _text("")
    """Name in the catalogue or folder of a small model that drafts, where `sources` has `draft`."""
    heads: str = _text("")
    """Folder of trained heads that draft, where `sources` has `heads`."""
    trees: bool = False
    """Heads and draft models may offer several continuations at once, where that pays; strict mode
    uses chains only."""
    strict: bool = False
    """Output bit-identical with and without speculation, at some cost in speed."""
    temperature: float = _number(0.0, 0.0, 5.0)
    """0: always the likeliest token; above: sampling."""
    seed: int = _number(0, 0, 2**63 - 1)
    """Start of the random numbers where the temperature is above 0."""
    prompt_tokens: int = _number(1024, 16, 100_000)
    """Most tokens that the model sees of the text around the cursor and of other files."""
    context: bool = True
    """The prompt may also hold text from elsewhere: of the file itself, and of others that were
    open in this session."""
    healing: bool = True
    """The last piece of text before the cursor is generated again, so that a word begun there goes
    on as the model would have written it."""
    deadline_ms: DeadlineSettings = field(default_factory=DeadlineSettings)
    """Milliseconds until decoding stops."""
    look_ahead: bool = True
    """What may be asked for next is generated in idle time; never on battery. What is at the cursor
    is read in idle time all the same."""
    max_file_bytes: int = _number(2_000_000, 1, 1_000_000_000)
    """Larger files are not completed."""
    max_lines: int = _number(100_000, 1, 100_000_000)
    """Files with more lines are not completed."""
    max_line_length: int = _number(10_000, 1, 1_000_000_000)
    """Files with a line of more characters, as minified ones have, are not completed."""
    exclude: tuple[str, ...] = ()
    """Globs of files that are neither completed nor used as context; all layers add up."""
    respect_gitignore: bool = True
    """Leave files alone that `.gitignore` names; what `.tabaheadignore` says goes before it."""
    languages_off: tuple[str, ...] = ()
    """Language ids without completions, such as `markdown`; all layers add up."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    """How the model runs."""
    status: bool = False
    """The client knows the notification `tabahead/status` and is told how things stand."""
    log_level: str = _choice("warning", LOG_LEVELS)
    """Least severity of what goes to the log on stderr: `error`, `warning`, `info` or `debug`. The
    editor's own log is told besides when a model is loaded."""


ADDING = frozenset({"exclude", "languages_off"})
"""Of these the values of all layers count."""
LOWERING = frozenset(
    {
        "num_items",
        "max_tokens",
        "prompt_tokens",
        "max_file_bytes",
        "max_lines",
        "max_line_length",
        "deadline_ms.automatic",
        "deadline_ms.invoked",
    }
)
"""Limits: a workspace may lower them."""
WORKSPACE_KEYS = ADDING | LOWERING | {"mode"}
"""What an untrusted workspace may set; its limits count only where they are lower."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the settings table."""

    key: str
    type: str
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    type: Any
    default: Any
    metadata: Mapping[str, Any]
    owner: str
    """The dataclass that has it."""


def describe() -> Iterator[Row]:
    """The settings as rows for a table, in their order."""
    docs = _docs()
    for key in keys_of(Settings):
        metadata = key.metadata
        if "choices" in metadata and not isinstance(key.default, tuple):
            kind = " | ".join(metadata["choices"])
        elif isinstance(key.type, type) and issubclass(key.type, Enum):
            kind = " | ".join(member.value for member in key.type)
        else:
            kind = "list" if get_origin(key.type) is tuple else key.type.__name__
        default = list(key.default) if isinstance(key.default, tuple) else key.default
        text = str(default).lower() if isinstance(default, bool) else str(default)
        doc = docs[key.owner][key.name.rpartition(".")[2]]
        yield Row(key.name, kind, text, " ".join(doc.split()))


def keys_of(cls: type, prefix: str = "") -> Iterator[Key]:
    """The leaves of the tree under their dotted names."""
    hints = get_type_hints(cls)
    for item in fields(cls):
        hint = hints[item.name]
        if is_dataclass(hint) and isinstance(hint, type):
            yield from keys_of(hint, f"{prefix}{item.name}.")
        else:
            assert item.default is not MISSING
            yield Key(prefix + item.name, hint, item.default, item.metadata, cls.__name__)


def _docs() -> dict[str, dict[str, str]]:
    """class -> field -> the string below it, read from this file's source."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(Path(__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            docs = found.setdefault(node.name, {})
            for item, below in zip(node.body, node.body[1:], strict=False):
                if isinstance(item, ast.AnnAssign) and isinstance(below, ast.Expr):
                    assert isinstance(item.target, ast.Name)
                    docs[item.target.id] = ast.literal_eval(below.value)
    return found
