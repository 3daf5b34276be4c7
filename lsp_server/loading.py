"""Which model there is: load it, offer to fetch it where it is absent, fetch it, load again.

Runs on the event loop; loading itself is the work of a thread of its own, so that a model in use
answers until the next one is there; fetching is another process's.
Nothing is downloaded that the user has not asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from lsp_server.cancellation import CancelToken
from lsp_server.completion import Engine
from lsp_server.errors import Cancelled, ModelMissingError, TabaheadError
from lsp_server.protocol import RefusedError
from lsp_server.scheduler import Scheduler
from lsp_server.session import Session
from lsp_server.window import Kind, ProgressState, Window

logger = logging.getLogger(__name__)

FETCH_COMMAND = "tabahead.fetchModel"

LOAD = "load"
"""The scheduler's key."""

Progress = Callable[[str, int, int], None]
"""(stage, done, total), callable from any thread."""

Load = Callable[[Any, Progress, CancelToken], Engine]

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Runs something beside the messages, until the server ends at the latest."""

LOOK_AGAIN = 5.0
"""Seconds between two looks for an absent model, which the user may have fetched in a terminal."""

_NOT_NOW = "Not now"

_SPANS = {"download": (0, 60), "extract": (60, 65), "ready": (100, 100)}
_BUILD_SPANS = {"checkpoint": (65, 67), "weights": (67, 95), "hashes": (95, 100)}
"""Stage -> its share of a fetch's progress bar, in percent."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A model that can be brought to this machine."""

    name: str
    megabytes: int
    """Size of the download."""
    run: Callable[[Progress], Coroutine[Any, Any, None]]
    """Does it; raises TabaheadError. Calls the progress on the event loop."""


FetchOf = Callable[[Any], Fetch | None]
"""Settings -> how to fetch the model that they name; None where that is not ours to fetch."""


class Loading:
    """The only one who tells the session what model it has."""

    def __init__(
        self, session: Session, window: Window, load: Load, fetch_of: FetchOf, start: Start
    ) -> None:
        self.scheduler = Scheduler("tabahead-loading")
        self._session = session
        self._window = window
        self._load = load
        self._fetch_of = fetch_of
        self._start = start
        self._settings: Any = None
        self._latest: asyncio.Future[Engine] | None = None
        self._look_at = 0.0
        self._fetches: dict[str, asyncio.Task[None]] = {}
        """Under way, by the model's name."""
        self._offered: set[str] = set()
        self._offer: tuple[Fetch, asyncio.Task[None]] | None = None
        """The question that the user has not answered yet."""

    async def load(self, settings: Any) -> None:
        """Until it is done the model in use answers, or `model-loading` where there is none; a
        newer load replaces it. Where it fails, the model in use stays."""
        self._settings = settings
        if self._offer is not None and not self._is_wanted(self._offer[0]):
            self._withdraw_offer()
        if not self._session.has_model:
            self._session.loading()
        self._look_at = asyncio.get_running_loop().time() + LOOK_AGAIN
        self._window.log("loading the model")
        state = ProgressState("loading")
        work = partial(self._load, settings, state.set)
        loaded = self._latest = self.scheduler.submit(LOAD, work)
        cancel = partial(self.scheduler.cancel, LOAD)
        self._start(self._window.progress("tabahead", loaded, state, cancel))
        await self._land(loaded, self._absent)

    def _look_again(self) -> None:
        """A request found no model; where there is one by now, it is loaded without a word."""
        now = asyncio.get_running_loop().time()
        is_looking = self._latest is not None and not self._latest.done()
        if now >= self._look_at and not is_looking:
            self._look_at = now + LOOK_AGAIN
            work = partial(self._load, self._settings, lambda stage, done, total: None)
            self._latest = self.scheduler.submit(LOAD, work)
            self._start(self._land(self._latest, absent=lambda message: None))

    async def _land(self, loaded: asyncio.Future[Engine], absent: Callable[[str], None]) -> None:
        try:
            engine = await loaded
        except Cancelled as cancelled:
            if str(cancelled) == "cancelled" and not self._session.has_model:
                self._session.missing(
                    "Loading was cancelled; restart the server to load the model."
                )
        except ModelMissingError as error:
            absent(str(error))
        except TabaheadError as error:
            self._missing(str(error))
        except Exception as error:
            logger.exception("the model could not be loaded")
            self._missing(f"The model could not be loaded ({type(error).__name__}); see the log.")
        else:
            if loaded is not self._latest:
                return  # a newer load has begun meanwhile, and has closed what this one loaded
            self._withdraw_offer()
            self._session.use(engine)
            self._window.log("ready")

    def fetch(self, settings: Any) -> None:
        """Fetch the model in use, or join the fetch of it that is under way."""
        fetch = self._fetch_of(settings)
        if fetch is None:
            message = "The model in use is not one of the catalogue; there is nothing to fetch."
            self._window.show(Kind.INFO, message)
        elif fetch.name not in self._fetches:
            self._withdraw_offer()
            self._settings = settings
            self._begin(fetch)

    def stop(self) -> None:
        """End what would go on for long: the user is leaving."""
        self._withdraw_offer()
        self.scheduler.stop()
        for work in self._fetches.values():
            work.cancel()

    def _absent(self, message: str) -> None:
        """The model is not on this machine: it is fetched already, offered once, or missing."""
        fetch = self._fetch_of(self._settings)
        if fetch is not None and fetch.name in self._fetches:
            if not self._session.has_model:
                self._session.loading(_being_fetched(fetch))
        elif fetch is not None and (self._offer is not None or fetch.name not in self._offered):
            if not self._session.has_model:
                self._session.missing(message, self._look_again)
            if self._offer is None:  # else that is of this model, since it was not withdrawn
                self._offered.add(fetch.name)
                self._offer = fetch, self._start(self._ask(fetch, message))
        else:
            self._missing(message, self._look_again)

    async def _ask(self, fetch: Fetch, message: str) -> None:
        yes = f"Fetch it ({fetch.megabytes} MB)"
        question = f"The model {fetch.name} is not on this machine."
        try:
            answer = await self._window.ask(question, (yes, _NOT_NOW))
        except RefusedError:
            # A client that cannot ask can still tell.
            self._offer = None
            self._window.show(Kind.ERROR, message)
            return
        self._offer = None
        if answer == yes:
            self._begin(fetch)

    def _withdraw_offer(self) -> None:
        if self._offer is not None:
            self._offer[1].cancel()
            self._offer = None

    def _begin(self, fetch: Fetch) -> None:
        if not self._session.has_model:
            self._session.loading(_being_fetched(fetch))
        state = ProgressState("starting")
        work = self._start(fetch.run(lambda *step: state.set(*fetch_step(*step))))
        self._fetches[fetch.name] = work
        title = f"tabahead: fetching {fetch.name}"
        self._window.log(f"fetching the model {fetch.name} ({fetch.megabytes} MB)")
        self._start(self._window.progress(title, work, state, work.cancel))
        self._start(self._finish(fetch, work))

    async def _finish(self, fetch: Fetch, work: asyncio.Task[None]) -> None:
        await asyncio.wait([work])
        del self._fetches[fetch.name]
        if work.cancelled():
            message = f"Fetching was cancelled; run the command {FETCH_COMMAND} to go on."
            self._not_fetched(fetch, message)
            return
        error = work.exception()
        if error is None:
            if self._is_wanted(fetch):
                await self.load(self._settings)
            return
        message = str(error)
        if not isinstance(error, TabaheadError):
            logger.error("the fetch failed", exc_info=error)
            message = f"The model could not be fetched ({type(error).__name__}); see the log."
        self._not_fetched(fetch, message)
        self._window.show(Kind.ERROR, message)

    def _is_wanted(self, fetch: Fetch) -> bool:
        """The settings may name another model by now."""
        wanted = self._fetch_of(self._settings)
        return wanted is not None and wanted.name == fetch.name

    def _not_fetched(self, fetch: Fetch, message: str) -> None:
        if self._is_wanted(fetch) and not self._session.has_model:
            self._session.missing(message, self._look_again)

    def _missing(self, message: str, when_asked: Callable[[], None] = lambda: None) -> None:
        if self._session.has_model:
            message += " Until then the model in use stays."
        else:
            self._session.missing(message, when_asked)
        self._window.show(Kind.ERROR, message)


def fetch_step(stage: str, done: int, total: int) -> tuple[str, int, int]:
    """A stage's progress as that of the whole fetch, in percent."""
    if stage == "wait":
        return "waiting for another process that fetches it", 0, 100
    label, span = stage, _SPANS.get(stage)
    if span is None:
        label, span = f"build: {stage}", _BUILD_SPANS.get(stage, (65, 65))
    first, last = span
    return label, first + ((last - first) * min(done, total) // total if total else 0), 100


def _being_fetched(fetch: Fetch) -> str:
    return f"The model {fetch.name} is being fetched; completions start when it is ready."
