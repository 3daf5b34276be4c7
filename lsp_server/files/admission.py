"""Whether a document may be completed, for the event loop: what the disk says is asked for ahead,
on a thread of its own, so that a disk that does not answer holds up nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from lsp_server.completion import Reason, Refusal, Snapshot
from lsp_server.errors import Cancelled
from lsp_server.files.exclusion import refuse_document
from lsp_server.files.rules import FileRules
from lsp_server.files.uris import disk_path
from lsp_server.scheduler import Scheduler
from lsp_server.settings.tree import Settings

logger = logging.getLogger(__name__)

FRESH = 1.0
"""Seconds for which what the disk has said holds without another look."""
PATIENCE = 2.0
"""Seconds that the first look at a document may take."""
PATIENCE_AGAIN = 0.005
"""Seconds that a later one may: until it is done, what is known holds. Most take a tenth of it."""
CALM = 5.0
"""Seconds between two times that changes of rules are told."""
MAX_KNOWN = 1024


@dataclass(frozen=True, slots=True)
class _Said:
    """What the disk has said of a document."""

    refusal: Refusal | None
    at: float


class Admission:
    """Judges documents under one version of the settings."""

    def __init__(
        self,
        settings: Settings,
        rules: FileRules,
        disk: Scheduler,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`disk` is the thread that may wait for one; `changed` is called, now and then, when rules
        have changed that other documents may have been admitted by; `clock` gives seconds."""
        self._settings = settings
        self._rules = rules
        self._disk = disk
        self._changed = changed
        self._clock = clock
        self._num_changes = rules.num_changes
        self._told_at = clock()
        self._known: OrderedDict[str, _Said] = OrderedDict()
        self._looks: dict[str, asyncio.Future[Refusal | None]] = {}

    def __len__(self) -> int:
        """Documents of which the disk has said something."""
        return len(self._known)

    async def look(self, uri: str) -> None:
        """Bring what is known of a document up to date, in bounded time."""
        if disk_path(uri) is None:
            return
        known = self._known.get(uri)
        if known is not None and self._clock() - known.at < FRESH:
            return
        if uri not in self._looks:
            key = f"{id(self)} {uri}"
            self._looks[uri] = look = self._disk.submit(key, lambda _: self._rules.refuse(uri))
            look.add_done_callback(lambda done: self._heard(uri, done))
        patience = PATIENCE if known is None else PATIENCE_AGAIN
        await asyncio.wait([self._looks[uri]], timeout=patience)

    def refuse(self, snapshot: Snapshot) -> Refusal | None:
        """By all that is known. A document of which the disk has said nothing yet is refused."""
        refusal = refuse_document(snapshot, self._settings)
        if refusal is not None or disk_path(snapshot.uri) is None:
            return refusal
        known = self._known.get(snapshot.uri)
        if known is None:
            message = "The disk does not say whether the file is ignored; ask again."
            return Refusal(Reason.EXCLUDED, message)
        return known.refusal

    def _heard(self, uri: str, look: asyncio.Future[Refusal | None]) -> None:
        del self._looks[uri]
        refusal = None
        if look.cancelled() or isinstance(look.exception(), Cancelled):
            return
        if (error := look.exception()) is not None:
            logger.error("the rules of a file cannot be told: %s", type(error).__name__)
        else:
            refusal = look.result()
        self._known[uri] = _Said(refusal, self._clock())
        self._known.move_to_end(uri)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        if self._rules.num_changes != self._num_changes and self._clock() - self._told_at >= CALM:
            self._num_changes, self._told_at = self._rules.num_changes, self._clock()
            self._changed()
