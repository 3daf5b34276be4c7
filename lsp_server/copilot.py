"""Copilot's dialect of the protocol, so that clients written for it are served as they are.

Two generations of it: `textDocument/inlineCompletion` with notifications of what became of items
(copilot.el), and before that `getCompletions` with requests for the same (copilot.lua). One table
of messages over the session; nothing of it knows an engine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from lsp_server.answers import Item
from lsp_server.documents import Encoding, Position, num_units
from lsp_server.params import (
    InlineCompletionParams,
    ParamsError,
    as_integer,
    as_object,
    as_optional,
    as_position,
    as_string,
    formatting_hints,
    parse_anything,
)
from lsp_server.session import Session
from lsp_server.statistics.acceptance import MAX_SHOWN
from lsp_server.status import Kind, Status

USER = "nobody (tabahead runs on this machine and signs in nowhere)"
"""Clients show whom they take to be signed in, and ask for nothing more."""

ACCEPT_COMMAND = "github.copilot.didAcceptCompletionItem"
"""Some clients know it by heart, though items name a command of our own."""

_STATUS: Mapping[Kind, tuple[str, str]] = {
    Kind.BUSY: ("Normal", "InProgress"),
    Kind.NORMAL: ("Normal", "Normal"),
    Kind.WARNING: ("Warning", "Warning"),
    Kind.INACTIVE: ("Inactive", "Inactive"),
    Kind.ERROR: ("Error", "Error"),
}
"""Ours -> the kind of `didChangeStatus` and the status of `statusNotification`."""


class Message(NamedTuple):
    parse: Callable[[Any], Any]
    """Raises ParamsError."""
    handle: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ItemParams:
    """What a client says of an item."""

    item_id: str
    length: int | None = None
    """UTF-16 units of its text that are in the document; None: all."""


def is_spoken_by(initialization_options: Mapping[str, Any]) -> bool:
    """Whether a client announces that it speaks the dialect. Then it wants its notifications, which
    other clients show as warnings, and counts in UTF-16 whatever else it offers."""
    return isinstance(initialization_options.get("editorPluginInfo"), dict)


class Copilot:
    def __init__(
        self, session: Session, notify: Callable[[str, Mapping[str, Any]], None], version: str
    ) -> None:
        self.is_announced = False
        self._session = session
        self._notify = notify
        self._version = version
        self._heads: OrderedDict[str, int] = OrderedDict()
        """Item -> UTF-16 units of the line before it, which old messages send with it."""

    def messages(self) -> Mapping[str, Message]:
        """Every method of the dialect that is not one of the protocol."""
        session = self._session
        ok = Message(parse_anything, lambda params: "OK")
        is_signed_in = Message(
            parse_anything, lambda params: {"status": "AlreadySignedIn", "user": USER}
        )
        return {
            "checkStatus": Message(parse_anything, lambda params: {"status": "OK", "user": USER}),
            "signIn": is_signed_in,
            "signInInitiate": is_signed_in,
            "signOut": ok,
            "getVersion": Message(parse_anything, lambda params: {"version": self._version}),
            "setEditorInfo": ok,
            "textDocument/didFocus": Message(_parse_focus, lambda params: None),
            "textDocument/didShowCompletion": Message(
                _parse_item, lambda params: session.seen(params.item_id)
            ),
            "textDocument/didPartiallyAcceptCompletion": Message(_parse_part, self._accept),
            "getCompletions": Message(partial(_parse_completions, invoked=False), self._complete),
            "getCompletionsCycling": Message(
                partial(_parse_completions, invoked=True), self._complete
            ),
            "notifyShown": Message(_parse_uuid, self._shown),
            "notifyAccepted": Message(_parse_accepted, self._accepted),
            "notifyRejected": Message(_parse_rejected, lambda params: "OK"),
        }

    def tell(self, status: Status) -> None:
        """How things stand, in both generations' words."""
        if not self.is_announced:
            return
        kind, old = _STATUS[status.kind]
        facts = {"busy": status.kind is Kind.BUSY, "message": status.sentence}
        self._notify("didChangeStatus", {"kind": kind, **facts})
        self._notify("statusNotification", {"status": old, **facts})

    async def _complete(self, params: InlineCompletionParams) -> Mapping[str, Any]:
        """Nothing where the version is not the document's, or a newer request has come."""
        answer = await self._session.complete(params)
        document = self._session.documents.get(params.uri)
        version = 0 if document is None else document.version
        return {
            "completions": [self._old_form(item, params.position, version) for item in answer.items]
        }

    def _old_form(self, item: Item, cursor: Position, version: int) -> Mapping[str, Any]:
        """An item from the line's start on, of which its text repeats what is there. An item of one
        line goes to the line's end, as clients take it to do: they leave out what both end with."""
        self._heads[item.item_id] = num_units(item.head, Encoding.UTF16)
        while len(self._heads) > MAX_SHOWN:
            self._heads.popitem(last=False)
        tail = "" if "\n" in item.text or not item.tail.strip() else item.tail
        end = item.end._replace(character=item.end.character + num_units(tail, Encoding.UTF16))
        return {
            "uuid": item.item_id,
            "text": item.head + item.text + tail,
            "displayText": item.text,
            "position": cursor._asdict(),
            "range": {"start": {**item.start._asdict(), "character": 0}, "end": end._asdict()},
            "docVersion": version,
        }

    def _shown(self, params: ItemParams) -> str:
        self._session.seen(params.item_id)
        return "OK"

    def _accepted(self, params: ItemParams) -> str:
        """`length` counts from the line's start."""
        head = self._heads.get(params.item_id, 0)
        length = None if params.length is None else params.length - head
        self._accept(ItemParams(params.item_id, length))
        return "OK"

    def _accept(self, params: ItemParams) -> None:
        if params.length is None:
            self._session.accept(params.item_id)
        else:
            self._session.partially_accepted(params.item_id, params.length, Encoding.UTF16)


def _parse_focus(params: Any) -> None:
    """A document, or none where something else is looked at."""
    document = as_optional(
        as_object, as_object(params, "params").get("textDocument"), "textDocument"
    )
    if document is not None:
        as_string(document.get("uri"), "textDocument.uri")


def _parse_item(params: Any) -> ItemParams:
    """Clients send the item as it came, or no more than its command."""
    item = as_object(as_object(params, "params").get("item"), "item")
    command = as_object(item.get("command"), "item.command")
    arguments = command.get("arguments")
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    return ItemParams(as_string(first, "item.command.arguments[0]"))


def _parse_part(params: Any) -> ItemParams:
    return ItemParams(
        _parse_item(params).item_id, _length(params.get("acceptedLength"), "acceptedLength")
    )


def _parse_uuid(params: Any) -> ItemParams:
    return ItemParams(as_string(as_object(params, "params").get("uuid"), "uuid"))


def _parse_accepted(params: Any) -> ItemParams:
    item_id = _parse_uuid(params).item_id
    return ItemParams(item_id, as_optional(_length, params.get("acceptedLength"), "acceptedLength"))


def _parse_rejected(params: Any) -> None:
    uuids = as_object(params, "params").get("uuids")
    if not isinstance(uuids, list):
        raise ParamsError("uuids must be a list of strings")
    for index, uuid in enumerate(uuids):
        as_string(uuid, f"uuids[{index}]")


def _length(value: Any, path: str) -> int:
    length = as_integer(value, path)
    if length < 1:
        raise ParamsError(f"{path} must be at least 1, not {length}")
    return length


def _parse_completions(params: Any, invoked: bool) -> InlineCompletionParams:
    document = as_object(as_object(params, "params").get("doc"), "doc")
    tab_size, insert_spaces = formatting_hints(document)
    return InlineCompletionParams(
        uri=as_string(document.get("uri"), "doc.uri"),
        version=as_optional(as_integer, document.get("version"), "doc.version"),
        position=as_position(document.get("position"), "doc.position"),
        invoked=invoked,
        selected=None,
        tab_size=tab_size,
        insert_spaces=insert_spaces,
    )
