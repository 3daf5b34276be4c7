"""The product as `tabahead serve` puts it together, in the test's own process, on a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lsp_server.commands.serve import Wiring
from lsp_server.server import Hooks
from lsp_server.statistics.file import read
from tests.lsp_client import RawClient
from tests.lsp_product import Product, served

OF_ITEMS = ("shown", "accepted", "accepted_in_parts", "partially_accepted", "characters")


@dataclass
class _Wired(Product):
    wiring: Wiring | None = None

    def hooks(self) -> Hooks:
        assert self.wiring is not None
        return self.wiring.hooks()


class WiredClient(RawClient):
    home: Path
    wiring: Wiring

    def told(self, method: str) -> list[Any]:
        """Parameters of every notification so far."""
        self.request("tabahead/explain", {"textDocument": {"uri": ""}})  # answered behind them
        return [m["params"] for m in self.messages if m.get("method") == method]

    def totals(self) -> dict[str, int]:
        """What was counted of items so far; also sees to it that nothing popped up."""
        assert self.told("window/showMessage") == []
        self.wiring.save_statistics()
        counted = read(self.home / "state").totals
        return {name: counted[name] for name in OF_ITEMS if name in counted}


@contextmanager
def wired(script: Path, home: Path) -> Iterator[WiredClient]:
    """A client that has said nothing yet; what it changes on the disk is below `home`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABAHEAD_HOME", str(home))
        product = _Wired(wiring=Wiring(f"scripted:{script}"))
        with served(product, WiredClient) as client:
            client.home, client.wiring = home, product.wiring
            yield client
