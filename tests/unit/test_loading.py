"""Which of two loads the session gets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from lsp_server.loading import Loading


def test_a_load_that_ends_as_a_newer_one_begins_is_not_used() -> None:
    """The newer one has closed what the older one loaded by then."""
    used: list[str] = []

    async def main() -> None:
        ends: list[asyncio.Future[Any]] = []
        running = asyncio.get_running_loop()

        def submit(key: str, work: Any) -> asyncio.Future[Any]:
            ends.append(running.create_future())
            return ends[-1]

        async def progress(*shown: Any) -> None:
            """A client that shows none."""

        session: Any = SimpleNamespace(has_model=True, use=used.append)
        window: Any = SimpleNamespace(log=lambda text: None, progress=progress)
        loading = Loading(session, window, lambda *_: None, lambda _: None, running.create_task)
        loading.scheduler = SimpleNamespace(submit=submit, cancel=lambda key: None)  # type: ignore[assignment]  # stands for the thread
        older = running.create_task(loading.load("a"))
        await asyncio.sleep(0)  # it begins
        newer = running.create_task(loading.load("b"))
        ends[0].set_result("engine of a")  # heard of in the turn in which the newer one begins
        await older
        ends[1].set_result("engine of b")
        await newer

    asyncio.run(main())
    assert used == ["engine of b"]
