"""Messages of the protocol that we read ourselves, checked strictly; complaints name the place.

Our own because the protocol library drops what it does not know (`textDocument.version`,
`formattingOptions`) and turns wrong types into others. Free of protocol libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lsp_server.documents import Change, Position, Range

T = TypeVar("T")

MAX_UINT = 2**31 - 1


class ParamsError(ValueError):
    """A message that does not have the form the protocol demands (error -32602)."""


@dataclass(frozen=True, slots=True)
class OpenParams:
    uri: str
    language_id: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class ChangeParams:
    uri: str
    version: int | None
    changes: tuple[Change, ...] | None
    """None where they could not be read."""


@dataclass(frozen=True, slots=True)
class DocumentParams:
    uri: str


@dataclass(frozen=True, slots=True)
class SelectedItem:
    range: Range
    text: str


@dataclass(frozen=True, slots=True)
class InlineCompletionParams:
    uri: str
    version: int | None
    """Sent by Copilot clients only; None elsewhere."""
    position: Position
    invoked: bool
    selected: SelectedItem | None
    tab_size: int | None
    insert_spaces: bool | None


@dataclass(frozen=True, slots=True)
class CancelParams:
    id: str | int


@dataclass(frozen=True, slots=True)
class ProgressParams:
    token: str | int


@dataclass(frozen=True, slots=True)
class CommandParams:
    command: str
    arguments: list[Any]


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """The few that change what the server does."""

    position_encodings: tuple[str, ...]
    work_done_progress: bool
    configuration: bool
    """Answers `workspace/configuration`."""
    register_configuration: bool
    """Wants `workspace/didChangeConfiguration` registered."""


@dataclass(frozen=True, slots=True)
class WorkspaceFoldersParams:
    added: tuple[str, ...]
    removed: tuple[str, ...]
    """URIs."""


@dataclass(frozen=True, slots=True)
class InitializeParams:
    process_id: int | None
    folder_uris: tuple[str, ...]
    """Of the workspace; the first one has the settings file."""
    options: Mapping[str, Any]
    capabilities: ClientCapabilities


def parse_open(params: Any) -> OpenParams:
    document = as_object(as_object(params, "params").get("textDocument"), "textDocument")
    version = document.get("version")
    return OpenParams(
        uri=as_string(document.get("uri"), "textDocument.uri"),
        language_id=as_string(document.get("languageId", ""), "textDocument.languageId"),
        version=0 if version is None else as_integer(version, "textDocument.version"),
        text=as_string(document.get("text"), "textDocument.text"),
    )


def parse_change(params: Any) -> ChangeParams:
    params = as_object(params, "params")
    document = as_object(params.get("textDocument"), "textDocument")
    return ChangeParams(
        uri=as_string(document.get("uri"), "textDocument.uri"),
        version=as_optional(as_integer, document.get("version"), "textDocument.version"),
        changes=_changes(params.get("contentChanges")),
    )


def _changes(changes: Any) -> tuple[Change, ...] | None:
    """None where one of them cannot be read: those before it are of no use alone."""
    try:
        if not isinstance(changes, list):
            raise ParamsError(f"contentChanges must be a list, not {_kind(changes)}")
        return tuple(_change(change, f"contentChanges[{i}]") for i, change in enumerate(changes))
    except ParamsError:
        return None


def parse_document(params: Any) -> DocumentParams:
    """`didClose` and `tabahead/explain`."""
    document = as_object(as_object(params, "params").get("textDocument"), "textDocument")
    return DocumentParams(as_string(document.get("uri"), "textDocument.uri"))


def parse_inline_completion(params: Any) -> InlineCompletionParams:
    params = as_object(params, "params")
    document = as_object(params.get("textDocument"), "textDocument")
    context = as_object(params.get("context"), "context")
    trigger_kind = as_integer(context.get("triggerKind"), "context.triggerKind")
    if trigger_kind not in (1, 2):
        raise ParamsError(f"context.triggerKind must be 1 or 2, not {trigger_kind}")
    tab_size, insert_spaces = formatting_hints(params.get("formattingOptions"))
    return InlineCompletionParams(
        uri=as_string(document.get("uri"), "textDocument.uri"),
        version=as_optional(as_integer, document.get("version"), "textDocument.version"),
        position=as_position(params.get("position"), "position"),
        invoked=trigger_kind == 1,
        selected=as_optional(
            _selected, context.get("selectedCompletionInfo"), "context.selectedCompletionInfo"
        ),
        tab_size=tab_size,
        insert_spaces=insert_spaces,
    )


def formatting_hints(value: Any) -> tuple[int | None, bool | None]:
    """`tabSize` and `insertSpaces`, which are outside the protocol: an odd value is no reason to
    refuse the request."""
    tab_size, insert_spaces = _at(value, "tabSize"), _at(value, "insertSpaces")
    return (
        tab_size if type(tab_size) is int and tab_size > 0 else None,
        insert_spaces if isinstance(insert_spaces, bool) else None,
    )


def parse_initialize(params: Any) -> InitializeParams:
    """Only what is used is read, so no client is refused for a capability from the future."""
    params = as_object(params, "params")
    folder_uris = _folder_uris(params.get("workspaceFolders"))
    if not folder_uris and isinstance(root_uri := params.get("rootUri"), str):
        folder_uris = (root_uri,)
    options = params.get("initializationOptions")
    process_id = as_optional(as_integer, params.get("processId"), "processId")
    capabilities = params.get("capabilities")
    encodings = _at(capabilities, "general", "positionEncodings")
    return InitializeParams(
        process_id=process_id,
        folder_uris=folder_uris,
        options=options if isinstance(options, dict) else {},
        capabilities=ClientCapabilities(
            position_encodings=tuple(
                name
                for name in (encodings if isinstance(encodings, list) else ())
                if isinstance(name, str)
            ),
            work_done_progress=_at(capabilities, "window", "workDoneProgress") is True,
            configuration=_at(capabilities, "workspace", "configuration") is True,
            register_configuration=_at(
                capabilities, "workspace", "didChangeConfiguration", "dynamicRegistration"
            )
            is True,
        ),
    )


def parse_workspace_folders(params: Any) -> WorkspaceFoldersParams:
    event = as_object(as_object(params, "params").get("event"), "event")
    return WorkspaceFoldersParams(
        added=_folder_uris(event.get("added")), removed=_folder_uris(event.get("removed"))
    )


def parse_cancel(params: Any) -> CancelParams:
    msg_id = as_object(params, "params").get("id")
    return CancelParams(msg_id if isinstance(msg_id, str) else as_integer(msg_id, "id"))


def parse_progress_token(params: Any) -> ProgressParams:
    token = as_object(params, "params").get("token")
    return ProgressParams(token if isinstance(token, str) else as_integer(token, "token"))


def parse_command(params: Any) -> CommandParams:
    params = as_object(params, "params")
    arguments = params.get("arguments")
    return CommandParams(
        command=as_string(params.get("command"), "command"),
        arguments=arguments if isinstance(arguments, list) else [],
    )


def parse_configuration(params: Any) -> Mapping[str, Any] | None:
    """Our section of `didChangeConfiguration`, sent below `tabahead`; None: ask for it instead."""
    settings = as_object(params, "params").get("settings")
    section = settings.get("tabahead") if isinstance(settings, dict) else None
    return section if isinstance(section, dict) else None


def parse_anything(params: Any) -> Any:
    """For `initialized` and `shutdown`, whose parameters mean nothing and are often left out."""
    return params


PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "$/cancelRequest": parse_cancel,
    "initialize": parse_initialize,
    "initialized": parse_anything,
    "shutdown": parse_anything,
    "textDocument/didOpen": parse_open,
    "textDocument/didChange": parse_change,
    "textDocument/didClose": parse_document,
    "textDocument/inlineCompletion": parse_inline_completion,
    "tabahead/explain": parse_document,
    "window/workDoneProgress/cancel": parse_progress_token,
    "workspace/didChangeConfiguration": parse_configuration,
    "workspace/didChangeWorkspaceFolders": parse_workspace_folders,
    "workspace/executeCommand": parse_command,
}


def _folder_uris(folders: Any) -> tuple[str, ...]:
    """Those that can be read; null means that there is no workspace."""
    listed = folders if isinstance(folders, list) else ()
    uris = (folder.get("uri") for folder in listed if isinstance(folder, dict))
    return tuple(uri for uri in uris if isinstance(uri, str))


def _change(value: Any, path: str) -> Change:
    value = as_object(value, path)
    where = as_optional(_range, value.get("range"), f"{path}.range")
    return Change(where, as_string(value.get("text"), f"{path}.text"))


def _selected(value: Any, path: str) -> SelectedItem:
    value = as_object(value, path)
    return SelectedItem(
        _range(value.get("range"), f"{path}.range"), as_string(value.get("text"), f"{path}.text")
    )


def _range(value: Any, path: str) -> Range:
    value = as_object(value, path)
    return Range(
        as_position(value.get("start"), f"{path}.start"),
        as_position(value.get("end"), f"{path}.end"),
    )


def as_position(value: Any, path: str) -> Position:
    value = as_object(value, path)
    line = as_integer(value.get("line"), f"{path}.line")
    character = as_integer(value.get("character"), f"{path}.character")
    if not (0 <= line <= MAX_UINT and 0 <= character <= MAX_UINT):
        raise ParamsError(f"{path} must lie between 0 and {MAX_UINT}")
    return Position(line, character)


def as_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ParamsError(f"{path} must be an object, not {_kind(value)}")
    return value


def as_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise ParamsError(f"{path} must be a string, not {_kind(value)}")
    return value


def as_integer(value: Any, path: str) -> int:
    """Whole floats pass: some clients know one kind of number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParamsError(f"{path} must be an integer, not {_kind(value)}")
    return value


def as_optional(parse: Callable[[Any, str], T], value: Any, path: str) -> T | None:
    return None if value is None else parse(value, path)


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _kind(value: Any) -> str:
    return "absent" if value is None else type(value).__name__
