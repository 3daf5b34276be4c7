"""One inference thread of our own: latest wins per document, and every submission is answered.

Used from the event loop; only `work` runs in the thread. Idle work runs while there is no other and
gives way at once. Knows neither the protocol nor models.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from lsp_server.cancellation import CancelToken
from lsp_server.errors import Cancelled

T = TypeVar("T")

NICENESS = 5
"""Of the inference thread and of the threads of the engine, which it starts: on a busy machine the
editor and the compiler come first. The same speed on an idle one."""


class _Job:
    """One piece of work. All but `run` happens on the event loop."""

    def __init__(self, work: Callable[[CancelToken], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.token = CancelToken()
        self.future: asyncio.Future[Any] = loop.create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.is_idle_work = False
        self._work: Callable[[CancelToken], Any] | None = work
        self._loop = loop

    def cancel(self, reason: str) -> None:
        """Answer now; the thread notices the token in its own time."""
        self.token.cancel(reason)
        self._finish(None, Cancelled(reason))

    def run(self) -> None:
        work = self._work
        if work is None or self.token.cancelled:
            return
        try:
            result, error = work(self.token), None
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller must hear it
            result, error = None, raised
        try:
            self._loop.call_soon_threadsafe(self._finish, result, error)
        except RuntimeError:
            # The loop has been closed: nobody is left who could be answered.
            return

    def _finish(self, result: Any, error: BaseException | None) -> None:
        self._work = None  # a cancelled job may wait in the queue; its text need not
        if self.timer is not None:
            self.timer.cancel()
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, Exception):
            self.future.set_exception(error)
        else:
            # SystemExit and the like would end the event loop if they came out of a future.
            failure = RuntimeError(f"{type(error).__name__} in the inference thread")
            failure.__cause__ = error
            self.future.set_exception(failure)


class Scheduler:
    """Starts its thread at the first submission."""

    def __init__(self, name: str = "tabahead-inference", *, gives_way: bool = True) -> None:
        """`gives_way`: to everything else on the machine; see `lower_priority`."""
        self._name = name
        self._gives_way = gives_way
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._latest: dict[str, _Job] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False

    def submit(
        self,
        key: str,
        work: Callable[[CancelToken], T],
        *,
        timeout: float | None = None,
        is_idle_work: bool = False,
    ) -> asyncio.Future[T]:
        """Queue `work`; an older job of the same key ends with Cancelled(`superseded`).

        Idle work begins when there is nothing else to do, and ends in the same way as soon as there
        is.

        The future holds the result, the exception that `work` raised, or Cancelled with the reason
        `superseded`, `deadline` (after `timeout` seconds, waiting included) or `shutdown`.
        Cancelling the future sets the job's token with the reason `cancelled`.
        """
        loop = asyncio.get_running_loop()
        job = _Job(work, loop)
        job.is_idle_work = is_idle_work
        if self._stopped:
            job.cancel("shutdown")
            return job.future
        self.cancel(key, "superseded")
        if not is_idle_work:
            for other in list(self._latest.values()):
                if other.is_idle_work:
                    other.cancel("superseded")
        self._latest[key] = job
        job.future.add_done_callback(lambda future: self._forget(key, job))
        if timeout is not None:
            job.timer = loop.call_later(timeout, job.cancel, "deadline")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(job)
        return job.future

    def cancel(self, key: str, reason: str = "cancelled") -> None:
        """Stop the job of `key`, queued or running, if there is one."""
        job = self._latest.get(key)
        if job is not None:
            job.cancel(reason)

    def stop(self) -> None:
        """Cancel everything with the reason `shutdown`; later submissions are cancelled at once."""
        self._stopped = True
        for job in list(self._latest.values()):
            job.cancel("shutdown")
        self._queue.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the thread after `stop`; False: it is still inside a piece of work."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _forget(self, key: str, job: _Job) -> None:
        if job.future.cancelled():
            job.cancel("cancelled")
        if self._latest.get(key) is job:
            del self._latest[key]

    def _run(self) -> None:
        if self._gives_way:
            lower_priority()
        while (job := self._queue.get()) is not None:
            job.run()


def lower_priority() -> None:
    """Let everything else on the machine come before this thread and those that it starts.

    Only Linux has priorities of threads that any user may lower; elsewhere it is the whole process
    that has one, and the event loop must not wait.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it, which is no reason to do nothing
            thread = threading.get_native_id()
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, max(now, NICENESS))
