"""Whether the machine runs on its battery, so that nothing is computed there that nobody asked for.

By each system's own means, which need no library: files on Linux, one call on macOS and Windows.
A machine that does not tell counts as one with mains.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_SUPPLIES = Path("/sys/class/power_supply")
_IOKIT = "/System/Library/Frameworks/IOKit.framework/IOKit"
_UNLIMITED = -2.0
"""kIOPSTimeRemainingUnlimited: the Mac is on mains."""


def on_battery() -> bool:
    """Takes up to some milliseconds, as batteries answer slowly."""
    try:
        if sys.platform == "darwin":
            return _mac_on_battery()
        if sys.platform == "win32":
            return _windows_on_battery()
        return linux_on_battery(_SUPPLIES)
    except (OSError, AttributeError):
        return False


def linux_on_battery(supplies: Path) -> bool:
    """`supplies` has a folder for each supply: /sys/class/power_supply.

    Batteries of mice and the like (scope `Device`) say nothing about the machine.
    """
    is_discharging = False
    for supply in supplies.iterdir() if supplies.is_dir() else ():
        kind = _read(supply / "type")
        if kind == "Battery":
            is_own = _read(supply / "scope") != "Device"
            is_discharging |= is_own and _read(supply / "status") == "Discharging"
        elif kind and _read(supply / "online") == "1":
            return False
    return is_discharging


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # not every supply has every file
        return ""


def _mac_on_battery() -> bool:
    remaining = ctypes.CDLL(_IOKIT).IOPSGetTimeRemainingEstimate
    remaining.restype = ctypes.c_double
    return bool(remaining() != _UNLIMITED)


def _windows_on_battery() -> bool:
    class SystemPowerStatus(ctypes.Structure):
        _fields_ = (
            ("ac_line_status", ctypes.c_ubyte),
            ("battery_flag", ctypes.c_ubyte),
            ("battery_life_percent", ctypes.c_ubyte),
            ("system_status_flag", ctypes.c_ubyte),
            ("battery_life_time", ctypes.c_uint32),
            ("battery_full_life_time", ctypes.c_uint32),
        )

    status = SystemPowerStatus()
    is_told = ctypes.windll.kernel32.GetSystemPowerStatus(ctypes.byref(status))  # type: ignore[attr-defined,unused-ignore]  # Windows only
    return bool(is_told) and status.ac_line_status == 0
