"""JSON-RPC as the specification has it, on the framework's bookkeeping of requests.

Every request is answered whatever its form and whenever it comes; the framework's own document
handling, start-up and exit are replaced. No document text is ever logged.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import uuid
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from lsp_server.answers import Answer, Item
from lsp_server.params import PARSERS, InitializeParams, ParamsError

logger = logging.getLogger(__name__)

PARSE_ERROR = types.ErrorCodes.ParseError.value
INVALID_REQUEST = types.ErrorCodes.InvalidRequest.value
METHOD_NOT_FOUND = types.ErrorCodes.MethodNotFound.value
INVALID_PARAMS = types.ErrorCodes.InvalidParams.value
NOT_INITIALIZED = types.ErrorCodes.ServerNotInitialized.value

REPLACED_BUILTINS = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
    types.EXIT,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
)
"""The framework splits lines wrongly and needs O(document) a key; we keep our own store. Of
progress it keeps every token for ever. An `exit` that comes as a request would end the process."""

PATIENCE = 1.0
"""Seconds that answers under way get at the end."""


class RefusedError(Exception):
    """The client answered a request of ours with an error."""


class LazyConverter:
    """The library's converter, made when it is first used: that takes 20 ms of start-up."""

    def __init__(self) -> None:
        self._converter: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._converter is None:
            self._converter = default_converter()  # type: ignore[no-untyped-call]  # of the library
        return getattr(self._converter, name)


class Protocol(LanguageServerProtocol):
    """Reads bodies with `receive`; the framework's stream loops are not used."""

    def __init__(self, server: Any, converter: Any) -> None:
        super().__init__(server, converter)
        for method in REPLACED_BUILTINS:
            self.fm.builtin_features.pop(method, None)
        self.parsers = dict(PARSERS)
        """Method -> reader of its parameters; other registered methods are read by the library."""
        self.exit_code: int | None = None
        """Set by `exit`; the owner of the loop stops then."""
        self._initialized = False

    @property
    def shut_down(self) -> bool:
        return self._shutdown

    def receive(self, body: bytes) -> None:
        """Handle one message; raises nothing that a client could provoke."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            self.refuse(None, PARSE_ERROR, "the message is not JSON in UTF-8")
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self.refuse(None, INVALID_REQUEST, "a message must be an object with jsonrpc 2.0")
            return
        method = message.get("method")
        if "id" in message and method is None:
            self._receive_response(message)
        elif not isinstance(method, str):
            msg_id = _id_or_none(message.get("id"))
            self.refuse(msg_id, INVALID_REQUEST, "the method must be a string")
        elif "id" in message:
            self._receive_request(message["id"], method, message)
        else:
            self._receive_notification(method, message)

    def refuse(self, msg_id: Any, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        self._send_data({"jsonrpc": "2.0", "id": msg_id, "error": error})

    def requests_under_way(self) -> list[asyncio.Task[Any]]:
        futures: list[Any] = list(self._request_futures.values())
        return [future for future in futures if _is_task(future) and not future.done()]

    async def drain(self) -> None:
        """Let requests that were just cancelled send their answers."""
        if tasks := self.requests_under_way():
            await asyncio.wait(tasks, timeout=PATIENCE)
        await asyncio.sleep(0)  # their callbacks, which send the answers, run in the next turn

    def _receive_request(self, msg_id: Any, method: str, message: Mapping[str, Any]) -> None:
        if _id_or_none(msg_id) is None:
            self.refuse(None, INVALID_REQUEST, "a request's id must be a string or an integer")
        elif self._shutdown:
            self.refuse(msg_id, INVALID_REQUEST, "the server has been shut down")
        elif self._initialized == (method == types.INITIALIZE):
            if self._initialized:
                self.refuse(msg_id, INVALID_REQUEST, "the server is initialized already")
            else:
                self.refuse(msg_id, NOT_INITIALIZED, "the first request must be initialize")
        elif not self._knows(method):
            self.refuse(msg_id, METHOD_NOT_FOUND, f"unknown method {method}")
        else:
            try:
                params = self._read_params(method, message)
            except ParamsError as error:
                self.refuse(msg_id, INVALID_PARAMS, str(error))
            else:
                contextvars.copy_context().run(self._handle_request, msg_id, method, params)

    def _receive_notification(self, method: str, message: Mapping[str, Any]) -> None:
        if method == types.EXIT:
            self.exit_code = 0 if self._shutdown else 1
            return
        if self._shutdown or not self._initialized:
            return
        if method != types.CANCEL_REQUEST and not self._knows(method):
            logger.debug("ignored the unknown notification %s", method)
            return
        try:
            params = self._read_params(method, message)
        except ParamsError as error:
            logger.warning("ignored a malformed %s: %s", method, error)
            return
        contextvars.copy_context().run(self._handle_notification, method, params)

    def _receive_response(self, message: Mapping[str, Any]) -> None:
        msg_id = message["id"]
        future = self._request_futures.get(msg_id) if isinstance(msg_id, str) else None
        if _is_task(future):  # a request of the client's own
            future = None
        if future is None and not {"result", "error"} & message.keys():
            self.refuse(_id_or_none(msg_id), INVALID_REQUEST, "a request needs a method")
            return
        if future is None or future.done():
            logger.debug("ignored a response that answers no request of ours")
            return
        self._result_types.pop(msg_id, None)
        error = message.get("error")
        if error is not None:
            text = error.get("message") if isinstance(error, dict) else None
            failure = types.ResponseError(code=0, message=str(text))
            self._handle_response(msg_id, error=failure)
        else:
            self._handle_response(msg_id, message.get("result"))

    def _knows(self, method: str) -> bool:
        return method in self.fm.features or method in self.fm.builtin_features

    def _read_params(self, method: str, message: Mapping[str, Any]) -> Any:
        """Parameters by our own reader, else by the library's type, else as plain JSON."""
        parse = self.parsers.get(method)
        if parse is not None:
            return parse(message.get("params"))
        message_type = self.get_message_type(method)
        if message_type is None:
            return message.get("params")
        try:
            return self._converter.structure(dict(message), message_type).params
        except Exception as error:
            raise ParamsError(f"the parameters of {method} are malformed") from error

    def _send_response(
        self, msg_id: Any, result: Any | None = None, error: types.ResponseError | None = None
    ) -> None:
        """Plain JSON goes out as it is; the library's types are turned into it."""
        if error is not None:
            self.refuse(msg_id, error.code, error.message)
        else:
            self._send_data({"jsonrpc": "2.0", "id": msg_id, "result": result})

    def notify(self, method: str, params: Any | None = None) -> None:
        """Plain parameters go out as they are, without the library's types and their cost."""
        self._send_data({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request with plain parameters and wait for its result, however long it takes.

        Nothing is kept of it once the waiting ends. Raises RefusedError.
        """
        msg_id = str(uuid.uuid4())
        future: Future[Any] = Future()
        self._request_futures[msg_id] = future
        self._send_data({"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params})
        try:
            return await asyncio.wrap_future(future)
        except JsonRpcException as error:
            raise RefusedError(str(error)) from error
        finally:
            self._request_futures.pop(msg_id, None)

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        """A cancel that comes after the answer is ordinary and stays silent."""
        future = self._request_futures.get(msg_id)
        if future is not None and _is_task(future):
            future.cancel()

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(  # type: ignore[override]  # our own parameter class
        self, params: InitializeParams
    ) -> Generator[Any, Any, Mapping[str, Any]]:
        """The handler's result is the answer: building it from types costs 30 ms of start-up."""
        result: Mapping[str, Any] = yield self.fm.features[types.INITIALIZE], (params,), None
        self._initialized = True
        return result


def _id_or_none(msg_id: Any) -> str | int | None:
    """The id of a request, None where it cannot be one."""
    return msg_id if isinstance(msg_id, str | int) and not isinstance(msg_id, bool) else None


def _is_task(future: Any) -> bool:
    """Incoming requests are tasks; outgoing ones are not."""
    return isinstance(future, asyncio.Task)


def wire_form(answer: Answer, command: str) -> dict[str, Any] | None:
    """null keeps what the client shows, no items clear it, others replace it. `command` is run on
    acceptance."""
    if answer.is_stale:
        return None
    return {"items": [_inline_completion_item(item, command) for item in answer.items]}


def _inline_completion_item(item: Item, command: str) -> dict[str, Any]:
    """The one shape that every client shows: text, explicit range, command."""
    return {
        "insertText": item.text,
        "range": {"start": item.start._asdict(), "end": item.end._asdict()},
        "command": {
            "title": "Accept completion",
            "command": command,
            "arguments": [item.item_id],
        },
    }
