"""When a generation may start: at once, but for keys that come faster than answers.

A pause is a gap that is longer than the gaps between keys have lately been; it is estimated as
network protocols estimate when an answer is overdue: mean and mean deviation (RFC 6298).
"""

from __future__ import annotations

FASTEST = 0.075
"""Seconds; who asks again sooner has not looked at what was shown, however fast the engine is."""

PAUSE = 0.5
"""Seconds after which a burst of keys is over, and what is known of its pace with it."""

LONGEST_WAIT, LONGEST_WAIT_IN_BURST = 0.1, 0.15
"""Seconds that an answer is held up at most by waiting for the pause; the second while keys come
faster than anybody reads. Longer waits save little work: what is asked for in vain is stopped at
the next key."""


class Pace:
    """The rhythm in which one document's completions are asked for."""

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._mean: float | None = None
        self._deviation = 0.0

    def asked(self, now: float) -> None:
        """A request has come; `now` in seconds."""
        gap = None if self._asked_at is None else now - self._asked_at
        self._asked_at = now
        if gap is None or gap > PAUSE:
            self._mean = None
        elif self._mean is None:
            self._mean, self._deviation = gap, gap / 2
        else:
            self._deviation += (abs(gap - self._mean) - self._deviation) / 4
            self._mean += (gap - self._mean) / 4

    def wait(self, now: float, is_behind: bool) -> float:
        """Seconds from `now` until the latest request is to start the engine.

        `is_behind`: the one before it was overtaken before it was answered.
        """
        if self._asked_at is None or self._mean is None:
            return 0.0
        is_burst = self._mean < FASTEST
        if not (is_behind or is_burst):
            return 0.0
        pause = max(1.5 * self._mean, self._mean + 4 * self._deviation)
        longest = LONGEST_WAIT_IN_BURST if is_burst else LONGEST_WAIT
        return max(0.0, self._asked_at + min(pause, longest) - now)
