"""The language server: thin handlers that read messages, ask the session and word the answers.

Start-up answers `initialize` before anything heavy is imported; the model loads behind it on the
inference thread. What to load and how to read settings is handed in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from lsp_server.asking import RequestOptions
from lsp_server.completion import Engine
from lsp_server.copilot import ACCEPT_COMMAND as COPILOT_ACCEPT_COMMAND
from lsp_server.copilot import Copilot, is_spoken_by
from lsp_server.documents import DocumentStore, Encoding
from lsp_server.errors import TabaheadError
from lsp_server.files.uris import disk_path
from lsp_server.loading import FETCH_COMMAND, FetchOf, Load, Loading
from lsp_server.params import (
    ChangeParams,
    ClientCapabilities,
    DocumentParams,
    InitializeParams,
    InlineCompletionParams,
    OpenParams,
    ProgressParams,
    WorkspaceFoldersParams,
)
from lsp_server.protocol import LazyConverter, Protocol, RefusedError, wire_form
from lsp_server.scheduler import Scheduler
from lsp_server.session import Listener, Session
from lsp_server.status import RESUME_COMMAND, Status, StatusSource
from lsp_server.stdio import (
    Channel,
    OversizedMessage,
    ThreadedWriter,
    start_reader,
    watch_process,
)
from lsp_server.window import Kind, Window

logger = logging.getLogger(__name__)

ACCEPT_COMMAND = "tabahead.didAcceptCompletionItem"
ACCEPT_PART_COMMAND = "tabahead.didPartiallyAcceptCompletionItem"
PAUSE_COMMAND = "tabahead.pause"
EXPLAIN = "tabahead/explain"
STATUS = "tabahead/status"
SECTION = "tabahead"

MAX_WARNINGS = 5
"""Faults of settings that are shown at once."""

CONFIGURATION_TIMEOUT = 2.0
"""Seconds that the client gets to send its configuration before the model is loaded without."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the settings mean for the server."""

    options: RequestOptions = field(default_factory=RequestOptions)
    max_chars: int = 1_000_000
    model: Any = None
    """Everything that makes another load necessary when it changes."""
    settings: Any = None
    """Handed to `load` as it is."""
    status: bool = False
    """The client wants STATUS."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hooks:
    """The rest of the product, as far as the server needs it."""

    configure: Callable[[Mapping[str, Any], Mapping[str, Any], Sequence[Path]], Configuration]
    """(initialization options, section `tabahead`, workspace folders) -> what to do."""
    load: Load
    """Heavy; runs on the inference thread. Raises TabaheadError."""
    fetch: FetchOf = lambda settings: None
    listener: Listener = field(default_factory=Listener)
    ready: Engine | None = None
    """Needs no loading: a script in the engine's place."""
    requests: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Further requests of our own, by method."""
    status: StatusSource = field(default_factory=StatusSource)
    is_spare: Callable[[], bool] = lambda: True
    """Whether the machine has power for what nobody has asked for; on the inference thread."""
    save: Callable[[], None] = lambda: None
    """Write what is to be kept, such as what was counted."""


class _Framework(LanguageServer):
    """The framework would show every internal error as a pop-up."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        logger.error("%s: %s", source.__name__, type(error).__name__)


class Server:
    """One client from `initialize` to `exit`."""

    def __init__(self, hooks: Hooks, version: str) -> None:
        self.scheduler = Scheduler()
        self.session = Session(self.scheduler, DocumentStore(), hooks.listener, hooks.is_spare)
        self._hooks = hooks
        self._version = version
        self._framework = _Framework(
            "tabahead", version, protocol_cls=Protocol, converter_factory=LazyConverter
        )
        self._protocol: Protocol = self._framework.protocol  # type: ignore[assignment]  # as told
        self._window = Window(self._protocol)
        self._copilot = Copilot(self.session, self._protocol.notify, version)
        self._loading = Loading(self.session, self._window, hooks.load, hooks.fetch, self._start)
        self._inbox: asyncio.Queue[bytes | OversizedMessage | None] = asyncio.Queue()
        self._capabilities = ClientCapabilities((), False, False, False)
        self._folder_uris: tuple[str, ...] = ()
        self._initialization_options: Mapping[str, Any] = {}
        self._section: Mapping[str, Any] = {}
        self._configuration = Configuration()
        self._is_configured = False
        self._may_load = False
        self._questions, self._last_answered = count(1), 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._client_is_gone: Callable[[], None] = lambda: None
        self._protocol.fm.features.update({**self._handlers(), **hooks.requests})
        for method, message in self._copilot.messages().items():
            self._protocol.fm.features[method] = message.handle
            self._protocol.parsers[method] = message.parse
        self._protocol.fm.commands.update(self._commands())
        self._protocol.fm.commands[COPILOT_ACCEPT_COMMAND] = self._accept
        hooks.status.subscribe(self._send_status)

    def _handlers(self) -> dict[str, Callable[..., Any]]:
        return {
            types.INITIALIZE: self._initialize,
            types.INITIALIZED: self._initialized,
            types.TEXT_DOCUMENT_DID_OPEN: self._did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: self._did_change,
            types.TEXT_DOCUMENT_DID_CLOSE: self._did_close,
            types.TEXT_DOCUMENT_INLINE_COMPLETION: self._inline_completion,
            types.WORKSPACE_DID_CHANGE_CONFIGURATION: self._did_change_configuration,
            types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: self._did_change_folders,
            types.WINDOW_WORK_DONE_PROGRESS_CANCEL: self._cancel_progress,
            types.SHUTDOWN: self._shut_down,
            EXPLAIN: self._explain,
        }

    def _commands(self) -> dict[str, Callable[..., None]]:
        return {
            ACCEPT_COMMAND: self._accept,
            ACCEPT_PART_COMMAND: self._accept_part,
            FETCH_COMMAND: self._fetch,
            PAUSE_COMMAND: lambda *arguments: self.session.pause(True),
            RESUME_COMMAND: lambda *arguments: self.session.pause(False),
        }

    async def run(
        self,
        channel: Channel,
        client: int | None = None,
        when_gone: Callable[[], None] = lambda: None,
    ) -> int:
        """Serve until `exit`, the end of the stream or of the process `client`; the exit code.

        `when_gone` is called from a thread once the client is gone, however busy the loop is.
        """
        loop = asyncio.get_running_loop()

        def deliver(message: bytes | OversizedMessage | None) -> None:
            if message is None:
                when_gone()
            try:
                loop.call_soon_threadsafe(self._inbox.put_nowait, message)
            except RuntimeError:
                # The loop is closed, so the server is ending already.
                return

        writer = ThreadedWriter(channel)
        self._protocol.set_writer(writer)
        start_reader(channel, deliver)
        self._client_is_gone = lambda: deliver(None)
        if client is not None:
            watch_process(client, self._client_is_gone)
        code = await self._pump()
        for task in (*self._protocol.requests_under_way(), *self._tasks):
            task.cancel()
        await self._protocol.drain()
        self.stop()
        writer.close()
        return code

    def stop(self) -> None:
        """End what runs on threads; nothing new begins."""
        self.scheduler.stop()
        self._loading.stop()

    def join(self, timeout: float) -> bool:
        """Wait for the threads after `stop`, so long for each; False: one is still at work."""
        return all(s.join(timeout) for s in (self.scheduler, self._loading.scheduler))

    async def _pump(self) -> int:
        while (message := await self._inbox.get()) is not None:
            if isinstance(message, OversizedMessage):
                logger.warning("ignored a message that is too large")
                continue
            self._protocol.receive(message)
            if self._protocol.exit_code is not None:
                return self._protocol.exit_code
            # Let a handler that was just started take its snapshot before the next edit is read.
            await asyncio.sleep(0)
        return 0 if self._protocol.shut_down else 1

    def _initialize(self, params: InitializeParams) -> dict[str, Any]:
        self._capabilities = params.capabilities
        self._window.shows_progress = params.capabilities.work_done_progress
        self._initialization_options = params.options
        self._folder_uris = params.folder_uris
        encoding = choose_encoding(params.capabilities.position_encodings)
        if is_spoken_by(params.options):
            self._copilot.is_announced, encoding = True, Encoding.UTF16
        self.session.documents.encoding = encoding
        if params.process_id is not None:
            watch_process(params.process_id, self._client_is_gone)
        return {
            "capabilities": {
                "positionEncoding": encoding,
                "textDocumentSync": {
                    "openClose": True,
                    "change": types.TextDocumentSyncKind.Incremental.value,
                },
                "inlineCompletionProvider": {},
                "executeCommandProvider": {"commands": list(self._commands())},
                "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
            },
            "serverInfo": {"name": "tabahead", "version": self._version},
        }

    def _initialized(self, params: Any) -> None:
        self._configure()
        self._copilot.tell(self._hooks.status.now())
        if self._hooks.ready is not None:
            self.session.use(self._hooks.ready)
        self._start(self._begin())

    async def _begin(self) -> None:
        if self._capabilities.register_configuration:
            registration = types.Registration(
                id="tabahead-configuration",
                method=types.WORKSPACE_DID_CHANGE_CONFIGURATION,
                register_options=types.DidChangeConfigurationRegistrationOptions(section=SECTION),
            )
            self._start(self._register(registration))
        if self._capabilities.configuration:
            await asyncio.wait([self._start(self._hear_section())], timeout=CONFIGURATION_TIMEOUT)
        self._may_load = self._hooks.ready is None
        if self._may_load and self._is_configured:
            await self._loading.load(self._configuration.settings)

    async def _register(self, registration: types.Registration) -> None:
        try:
            await self._framework.client_register_capability_async(
                types.RegistrationParams([registration])
            )
        except JsonRpcException as error:
            logger.warning("the client refused to report changes of settings: %s", error)

    def _did_open(self, params: OpenParams) -> None:
        self.session.documents.open(params.uri, params.language_id, params.version, params.text)
        self.session.opened(params.uri)

    def _did_change(self, params: ChangeParams) -> None:
        if params.changes is None:
            logger.warning("an edit could not be read; waiting for the document's whole text")
            self.session.lose(params.uri)
        elif not self.session.change(params.uri, params.version, params.changes):
            logger.warning("ignored a change of a document that is not open")

    def _did_close(self, params: DocumentParams) -> None:
        self.session.close(params.uri)

    async def _inline_completion(self, params: InlineCompletionParams) -> dict[str, Any] | None:
        return wire_form(await self.session.complete(params), ACCEPT_COMMAND)

    def _explain(self, params: DocumentParams) -> dict[str, Any] | None:
        return self.session.explain(params.uri)

    def _accept(self, *arguments: Any) -> None:
        if arguments and isinstance(arguments[0], str):
            self.session.accept(arguments[0])
        else:
            logger.warning("%s: its argument must be the item's id, a string", ACCEPT_COMMAND)

    def _accept_part(self, *arguments: Any) -> None:
        """The item's id, and how much of it is inserted by now, in units of positions."""
        if len(arguments) >= 2 and isinstance(arguments[0], str) and type(arguments[1]) is int:
            self.session.partially_accepted(arguments[0], arguments[1])
        else:
            logger.warning("%s: its arguments must be an id and a length", ACCEPT_PART_COMMAND)

    def _send_status(self, status: Status) -> None:
        if self._configuration.status:
            self._protocol.notify(STATUS, status.as_json())
        self._copilot.tell(status)

    def _fetch(self, *arguments: Any) -> None:
        """Answered at once; what becomes of it is shown."""
        self._loading.fetch(self._configuration.settings)

    def _cancel_progress(self, params: ProgressParams) -> None:
        self._window.cancel_progress(params.token)

    def _shut_down(self, params: Any) -> None:
        """Some clients kill the server as soon as this is answered."""
        self._loading.stop()
        self._hooks.save()

    def _did_change_configuration(self, section: Mapping[str, Any] | None) -> None:
        if self._capabilities.configuration:
            self._start(self._hear_section())
        elif section is not None:
            self._section = section
            self.configure_again()

    def _did_change_folders(self, params: WorkspaceFoldersParams) -> None:
        kept = [uri for uri in self._folder_uris if uri not in params.removed]
        self._folder_uris = tuple(dict.fromkeys((*kept, *params.added)))
        self.configure_again()

    def configure_again(self) -> None:
        """Some layer of the settings has changed."""
        model = self._configuration.model
        self._configure()
        if self._may_load and self._configuration.model != model:
            self._start(self._loading.load(self._configuration.settings))

    async def _hear_section(self) -> None:
        """Ask for the client's settings and heed them, however late; those overtaken are left."""
        question = next(self._questions)
        params = {"items": [{"section": SECTION}]}
        try:
            answer = await self._protocol.ask(types.WORKSPACE_CONFIGURATION, params)
        except RefusedError as error:
            logger.warning("the client sent no settings: %s", error)
            return
        if question > self._last_answered:
            self._last_answered = question
            section = answer[0] if isinstance(answer, list) and answer else None
            self._section = section if isinstance(section, dict) else {}
            self.configure_again()

    def _configure(self) -> None:
        try:
            configuration = self._hooks.configure(
                self._initialization_options,
                self._section,
                [path for uri in self._folder_uris if (path := disk_path(uri)) is not None],
            )
        except TabaheadError as error:
            self.session.missing(str(error))
            self._window.show(Kind.ERROR, str(error))
            return
        new_warnings = [
            text for text in configuration.warnings if text not in self._configuration.warnings
        ]
        is_new = configuration.status and not self._configuration.status
        self._configuration, self._is_configured = configuration, True
        if is_new:
            self._protocol.notify(STATUS, self._hooks.status.now().as_json())
        self.session.options = configuration.options
        self.session.documents.max_chars = configuration.max_chars
        self.session.reconsider()
        if len(new_warnings) > MAX_WARNINGS:
            rest = len(new_warnings) - MAX_WARNINGS
            new_warnings[MAX_WARNINGS:] = [f"... and {rest} more faults in the settings."]
        if new_warnings:
            self._window.show(Kind.WARNING, "\n".join(new_warnings))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def choose_encoding(offered: tuple[str, ...]) -> Encoding:
    """The client's first that we know; UTF-16 is what it must know if it says nothing."""
    known = {encoding.value: encoding for encoding in Encoding}
    return next((known[name] for name in offered if name in known), Encoding.UTF16)
