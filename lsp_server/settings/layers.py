"""The layers that settings are read from, and how they are merged.

A bad value or an unknown key never stops the server: what a lower layer says stays and a warning
says so. Only on the command line it is an error.
"""

from __future__ import annotations

import difflib
import re
import reprlib
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from lsp_server.errors import SettingsError
from lsp_server.settings.tree import ADDING, LOWERING, WORKSPACE_KEYS, Key, Settings, keys_of

SECTION = "tabahead"
"""The section that clients are asked for, and that may wrap the settings they send."""

WORKSPACE_FILE = "tabahead.toml"
MAX_FILE_BYTES = 64 * 1024
"""Of a settings file; a larger one is none."""

MAX_NAMES = 500
"""In a list; each request compares all of them."""

_FOREIGN = {
    *("editorInfo", "editorPluginInfo", "networkProxy"),
    *("copilotCapabilities", "copilotIntegrationId"),
}
"""What Copilot clients send as `initializationOptions` besides."""


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


def load(
    *,
    command_line: Mapping[str, Any] | None = None,
    section: Mapping[str, Any] | None = None,
    initialization: Mapping[str, Any] | None = None,
    workspaces: Sequence[Path] = (),
    user_file: Path | None = None,
) -> Loaded:
    """Settings of all layers; `workspaces` are the root folders, each of which may narrow them and
    the first of which comes before the others, `user_file` is the user's TOML file.

    Raises SettingsError for a fault on the command line; all other faults become warnings.
    """
    warnings: list[str] = []
    layers: list[Layer] = []
    if user_file is not None:
        layers.append(Layer(str(user_file), _read_toml(user_file, warnings)))
    for workspace in reversed(workspaces):
        path = workspace / WORKSPACE_FILE
        layers.append(Layer(str(path), _read_toml(path, warnings), narrowing=True))
    for name, values in (("initializationOptions", initialization), ("the client", section)):
        layers.append(Layer(name, _unwrap(values)))
    layers.append(Layer("the command line", command_line or {}, must_be_right=True))
    loaded = resolve(layers)
    return Loaded(loaded.settings, (*warnings, *loaded.warnings))


def resolve(layers: Sequence[Layer]) -> Loaded:
    """Merge layers, lowest first. Raises SettingsError for faults in a `must_be_right` layer."""
    keys = {key.name: key for key in keys_of(Settings)}
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


def _read_toml(path: Path, warnings: list[str]) -> Mapping[str, Any]:
    """A file that a stranger may have written: nothing in it stops the server or holds it up."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            raise ValueError(f"it must be an ordinary file of at most {MAX_FILE_BYTES} bytes")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
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
    values: Mapping[str, Any], keys: Mapping[str, Key], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Dotted snake-case names; the table decides what is a group, so unknown ones stay whole."""
    for name, value in values.items():
        full = prefix + _snake(str(name))
        is_group = any(key.startswith(full + ".") for key in keys)
        if is_group and isinstance(value, Mapping):
            yield from _flatten(value, keys, full + ".")
        else:
            yield full, value


def _accepted(layer: Layer, name: str, raw: Any, keys: Mapping[str, Key]) -> Any:
    """The value in its type. Raises SettingsError with the sentence to show."""
    key = keys.get(name)
    if key is None:
        near = [known for known in keys if known.endswith(f".{name}")]
        near = near or difflib.get_close_matches(name, keys, n=1)
        near = near or difflib.get_close_matches(
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
            f"`{name}` in {layer.name} must be {error}, not {reprlib.repr(raw)}{ignored}."
        ) from error


def _merged(layer: Layer, name: str, value: Any, so_far: Any) -> Any:
    if name in ADDING:
        return tuple(dict.fromkeys((*so_far, *value)))
    if layer.narrowing and name in LOWERING:
        return min(value, so_far)
    return value


def _converted(raw: Any, key: Key) -> Any:
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
    if len(names) > MAX_NAMES:
        raise ValueError(f"a list of at most {MAX_NAMES} strings")
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
