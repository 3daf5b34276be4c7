"""Mains and batteries as Linux shows them; other systems only say yes or no."""

from __future__ import annotations

import pytest

from lsp_server.answering.power import linux_on_battery, on_battery

MACHINES = {
    # name: {supply: {file: content}}, on battery
    "a desktop computer": ({}, False),
    "a laptop on mains": (
        {
            "AC": {"type": "Mains", "online": "1"},
            "BAT0": {"type": "Battery", "status": "Charging"},
        },
        False,
    ),
    "a laptop on mains whose battery is drained all the same": (
        {
            "AC": {"type": "Mains", "online": "1"},
            "BAT0": {"type": "Battery", "status": "Discharging"},
        },
        False,
    ),
    "a laptop on its battery": (
        {
            "AC": {"type": "Mains", "online": "0"},
            "BAT0": {"type": "Battery", "status": "Discharging"},
        },
        True,
    ),
    "a laptop that is fed by USB": (
        {
            "AC": {"type": "Mains", "online": "0"},
            "BAT0": {"type": "Battery", "status": "Discharging"},
            "ucsi": {"type": "USB", "online": "1"},
        },
        False,
    ),
    "two batteries, one of them full": (
        {
            "BAT0": {"type": "Battery", "status": "Full"},
            "BAT1": {"type": "Battery", "status": "Discharging"},
        },
        True,
    ),
    "a mouse without cable": (
        {"hidpp": {"type": "Battery", "scope": "Device", "status": "Discharging"}},
        False,
    ),
    "a supply that says nothing": ({"odd": {}}, False),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_on_battery_when_its_own_drains_and_nothing_feeds_it(name, tmp_path):
    supplies, expected = MACHINES[name]
    for supply, files in supplies.items():
        (tmp_path / supply).mkdir()
        for file, content in files.items():
            (tmp_path / supply / file).write_text(content + "\n")
    assert linux_on_battery(tmp_path) is expected


def test_a_system_without_that_folder_has_mains(tmp_path):
    assert linux_on_battery(tmp_path / "absent") is False


def test_this_machine_can_be_asked():
    assert on_battery() in (True, False)
