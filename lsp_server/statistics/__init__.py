"""Local counters of what was asked, shown and accepted. Nothing leaves the machine."""
