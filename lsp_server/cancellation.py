"""One token that stops a piece of work from any thread, down into a running graph pass."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lsp_server.errors import Cancelled


class CancelToken:
    """Set once, never reset; `reason` is the reason code of whoever set it first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._reason: str | None = None

    @property
    def cancelled(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """`cancelled`, `superseded`, `deadline`, ...; None while the work may go on."""
        return self._reason

    def cancel(self, reason: str = "cancelled") -> None:
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def raise_if_cancelled(self) -> None:
        if self._reason is not None:
            raise Cancelled(self._reason)

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` at most once if the token is set while the block runs (or was before)."""
        with self._lock:
            already = self._reason is not None
            if not already:
                self._callbacks.append(callback)
        if already:
            callback()
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
