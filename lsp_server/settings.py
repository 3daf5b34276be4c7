"""All settings with their defaults and meaning, and the layers that they are read from.

A bad value or an unknown key never stops the server: the default stays and a warning says so. Only
on the command line it is an error.
"""

from __future__ import annotations

import ast
import difflib
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from lsp_server.completion import Mode
from lsp_server.errors import SettingsError

SECTION = "tabahead"
"""The section that clients are asked for, and that may wrap the settings they send."""

WORKSPACE_FILE = "tabahead.toml"
MAX_FILE_BYTES = 64 * 1024
"""Of a settings file; a larger one is none."""

SOURCES = ("lookup", "corpus", "heads", "draft", "early_exit")
LOG_LEVELS = ("error", "warning", "info", "debug")
_FOREIGN = {"editorInfo", "editorPluginInfo"}
"""What Copilot clients send as `initializationOptions` besides."""


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
    """Heads and draft models offer several continuations at once; strict mode uses chains only."""
    strict: bool = False
    """Output bit-identical with and without speculation, at some cost in speed."""
    temperature: float = _number(0.0, 0.0, 5.0)
    """0: always the likeliest token; above: sampling."""
    seed: int = _number(0, 0, 2**63 - 1)
    """Start of the random numbers where the temperature is above 0."""
    prompt_tokens: int = _number(1024, 16, 100_000)
    """Most tokens of text before the cursor that the model sees."""
    context: bool = True
    """The prompt may also hold text of other files that were open in this session."""
    healing: bool = True
    """The last piece of text before the cursor is generated again, so that a word begun there goes
    on as the model would have written it."""
    deadline_ms: DeadlineSettings = field(default_factory=DeadlineSettings)
    """Milliseconds until decoding stops."""
    look_ahead: bool = True
    """What may be asked for next is generated in idle time; never on battery."""
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
    """Least severity that is logged: `error`, `warning`, `info` or `debug`."""


_ADDING = {"exclude", "languages_off"}
_LOWERING = {
    "max_tokens",
    "prompt_tokens",
    "max_file_bytes",
    "max_lines",
    "max_line_length",
    "deadline_ms.automatic",
    "deadline_ms.invoked",
}
WORKSPACE_KEYS = frozenset(_ADDING | _LOWERING | {"mode"})
"""What an untrusted workspace may set; its limits count only where they are lower."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one place."""

    name: str
    """How warnings call the place."""
    values: Mapping[str, Any]
    narrowing: bool = False
    """True for the workspace, which may only restrict."""
    must_be_right: bool = False
    """True for the command line, where a fault is an error."""


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the settings table."""

    key: str
    type: str
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class _Key:
    name: str
    type: Any
    default: Any
    metadata: Mapping[str, Any]
    owner: str
    """The dataclass that has it."""


def load(
    *,
    command_line: Mapping[str, Any] | None = None,
    section: Mapping[str, Any] | None = None,
    initialization: Mapping[str, Any] | None = None,
    workspace: Path | None = None,
    user_file: Path | None = None,
) -> Loaded:
    """Settings of all layers; `workspace` is a root folder, `user_file` the user's TOML file.

    Raises SettingsError for a fault on the command line; all other faults become warnings.
    """
    warnings: list[str] = []
    layers: list[Layer] = []
    if user_file is not None:
        layers.append(Layer(str(user_file), _read_toml(user_file, warnings)))
    if workspace is not None:
        path = workspace / WORKSPACE_FILE
        layers.append(Layer(str(path), _read_toml(path, warnings), narrowing=True))
    for name, values in (("initializationOptions", initialization), ("the client", section)):
        layers.append(Layer(name, _unwrap(values)))
    layers.append(Layer("the command line", command_line or {}, must_be_right=True))
    loaded = resolve(layers)
    return Loaded(loaded.settings, (*warnings, *loaded.warnings))


def resolve(layers: Sequence[Layer]) -> Loaded:
    """Merge layers, lowest first. Raises SettingsError for faults in a `must_be_right` layer."""
    keys = {key.name: key for key in _keys(Settings)}
    values: dict[str, Any] = {}
    warnings: list[str] = []
    for layer in layers:
        for name, raw in _flatten(layer.values, keys):
            try:
                value = _accepted(layer, name, raw, keys)
            except SettingsError as error:
                if layer.must_be_right:
                    raise
                warnings.append(str(error))
                continue
            values[name] = _merged(layer, name, value, values.get(name, keys[name].default))
    return Loaded(_build(Settings, values), tuple(warnings))


def describe() -> Iterator[Row]:
    """The settings as rows for a table, in their order."""
    docs = _docs()
    for key in _keys(Settings):
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


def _keys(cls: type, prefix: str = "") -> Iterator[_Key]:
    """The leaves of the tree under their dotted names."""
    hints = get_type_hints(cls)
    for item in fields(cls):
        hint = hints[item.name]
        if is_dataclass(hint) and isinstance(hint, type):
            yield from _keys(hint, f"{prefix}{item.name}.")
        else:
            assert item.default is not MISSING
            yield _Key(prefix + item.name, hint, item.default, item.metadata, cls.__name__)


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


def _read_toml(path: Path, warnings: list[str]) -> Mapping[str, Any]:
    """A file that a stranger may have written: nothing in it stops the server or holds it up."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            raise ValueError(f"it must be an ordinary file of at most {MAX_FILE_BYTES} bytes")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        warnings.append(f"{path} cannot be used ({error}); correct it, until then it is ignored.")
        return {}


def _unwrap(values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Clients send the settings bare or inside their section, Copilot's with extras."""
    if not isinstance(values, Mapping):
        return {}
    inner = values.get(SECTION)
    if isinstance(inner, Mapping):
        return inner
    return {name: value for name, value in values.items() if name not in _FOREIGN}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), name)


def _flatten(
    values: Mapping[str, Any], keys: Mapping[str, _Key], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Dotted snake-case names; the table decides what is a group, so unknown ones stay whole."""
    for name, value in values.items():
        full = prefix + _snake(str(name))
        is_group = any(key.startswith(full + ".") for key in keys)
        if is_group and isinstance(value, Mapping):
            yield from _flatten(value, keys, full + ".")
        else:
            yield full, value


def _accepted(layer: Layer, name: str, raw: Any, keys: Mapping[str, _Key]) -> Any:
    """The value in its type. Raises SettingsError with the sentence to show."""
    key = keys.get(name)
    if key is None:
        near = difflib.get_close_matches(name, keys, n=1) or difflib.get_close_matches(
            name, [known.rpartition(".")[2] for known in keys], n=1
        )
        hint = f"did you mean `{near[0]}`?" if near else "see the settings table in the README."
        raise SettingsError(f"Unknown setting `{name}` in {layer.name}; {hint}")
    if layer.narrowing and name not in WORKSPACE_KEYS:
        raise SettingsError(
            f"`{name}` in {layer.name} is ignored, since a workspace is not trusted with it; set it"
            " in your user settings or editor."
        )
    try:
        return _converted(raw, key)
    except ValueError as error:
        ignored = "" if layer.must_be_right else "; it is ignored"
        raise SettingsError(
            f"`{name}` in {layer.name} must be {error}, not {raw!r}{ignored}."
        ) from error


def _merged(layer: Layer, name: str, value: Any, so_far: Any) -> Any:
    if name in _ADDING:
        return tuple(dict.fromkeys((*so_far, *value)))
    if layer.narrowing and name in _LOWERING:
        return min(value, so_far)
    return value


def _converted(raw: Any, key: _Key) -> Any:
    """Raises ValueError that says what the value must be."""
    kind, metadata = key.type, key.metadata
    if get_origin(kind) is tuple:
        return _names(raw, metadata.get("choices"))
    if kind is bool:
        if not isinstance(raw, bool):
            raise ValueError("true or false")
        return raw
    if kind in (int, float):
        low, high = metadata["low"], metadata["high"]
        noun = "a whole number" if kind is int else "a number"
        is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
        if not is_number or not low <= raw <= high or (kind is int and raw != int(raw)):
            raise ValueError(f"{noun} from {low} to {high}")
        return kind(raw)
    if issubclass(kind, Enum):
        values = [member.value for member in kind]
        if raw not in values:
            raise ValueError("one of " + ", ".join(values))
        return kind(raw)
    if not isinstance(raw, str) or not (raw or metadata.get("empty")):
        raise ValueError("a string" if metadata.get("empty") else "a string that is not empty")
    choices = metadata.get("choices")
    if choices and raw not in choices:
        raise ValueError("one of " + ", ".join(choices))
    return raw


def _names(raw: Any, choices: Sequence[str] | None) -> tuple[str, ...]:
    """A list of strings or a string with commas; `none` is empty where there are choices."""
    names = [name.strip() for name in raw.split(",")] if isinstance(raw, str) else raw
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("a list of strings")
    names = [name for name in names if name]
    if choices is None:
        return tuple(names)
    if names == ["none"]:
        return ()
    if not set(names) <= set(choices):
        raise ValueError("`none` or some of " + ", ".join(choices))
    return tuple(dict.fromkeys(names))


def _build(cls: type[Any], values: Mapping[str, Any], prefix: str = "") -> Any:
    """The dataclass tree from dotted names; what is absent has its default."""
    arguments: dict[str, Any] = {}
    hints = get_type_hints(cls)
    for item in fields(cls):
        name, hint = prefix + item.name, hints[item.name]
        if is_dataclass(hint) and isinstance(hint, type):
            arguments[item.name] = _build(hint, values, name + ".")
        elif name in values:
            arguments[item.name] = values[name]
    return cls(**arguments)
