"""How many documents keep their caches: as many as the memory for it holds, states included."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.onnx_slot import OnnxSlot
from tests.tiny_model import build_tiny_model

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory") / "model"
    build_tiny_model(folder)
    return folder


def num_bytes(slot: OnnxSlot) -> int:
    arrays = [*slot._kv.arrays.values(), *slot._states.values()]
    return sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("states", [(), ("hidden_states",), ("hidden_states", "features")])
def test_the_buffers_of_all_slots_fill_the_memory_for_them_and_no_more(folder, states):
    model = OnnxModel(folder, threads=1, slot_tokens=256, kv_memory_mb=1, states=states)
    for key in range(40):
        model.slot(str(key))
    slots = list(model._slots.values())
    one = num_bytes(slots[0])
    assert 1 < len(slots) < 40
    assert sum(map(num_bytes, slots)) <= MEGABYTE < sum(map(num_bytes, slots)) + one
