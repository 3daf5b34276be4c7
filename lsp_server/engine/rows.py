"""What the target says in each row of one pass, processed as the request wants it.

Row 0 follows the history, row i + 1 drafted token i. Rows are looked at only when asked for, so
that those behind a rejection cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.engine.sampling import (
    below_least_length,
    greedy_token,
    position_rng,
    process,
    sample,
)
from lsp_server.engine.types import Choice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lsp_server.engine.types import DecodeParams, Draft, Logits, Probs


class TargetRows:
    def __init__(
        self,
        logits: Logits,
        history: Sequence[int],
        draft: Draft,
        params: DecodeParams,
        num_new: int,
        end_ids: frozenset[int],
    ) -> None:
        """
        Args:
            logits: float32 [1 + drafted tokens, vocab].
            history: prompt and output; the last `num_new` tokens are this generation's own.
            end_ids: what is barred below the least length.
        """
        self._logits = logits
        self._history = history
        self._draft = draft
        self._params = params
        self._num_new = num_new
        self._num_short = params.min_new_tokens - num_new
        self._endless = below_least_length(params, end_ids) if self._num_short > 0 else params

    def probs(self, row: int) -> Probs:
        """float64 [vocab]; of chains, where the row is the depth."""
        params = self._params_at(row)
        return process(self._logits[row], params, self._before(row), self._allowed(row))

    def rng(self, depth: int) -> np.random.Generator:
        return position_rng(self._params.seed, len(self._history) + depth)

    def token(self, row: int, depth: int) -> int:
        """The target's own choice: its arg max, or its draw from p."""
        logits, params, before = self._logits[row], self._params_at(depth), self._before(row)
        if params.greedy:
            return greedy_token(logits, params, before, self._allowed(row))
        return sample(logits, params, before, self.rng(depth).random(), self._allowed(row))

    def choice(self, row: int, token: int) -> Choice:
        """How probable `token` was there, and what else might have come."""
        logits = self._logits[row]
        log_total = _log_sum_exp(logits)
        log_allowed = 0.0
        allowed = self._allowed(row)
        others = logits.copy() if allowed is None else np.full_like(logits, -np.inf)
        if allowed is not None:
            others[allowed] = logits[allowed]
            log_allowed = min(0.0, _log_sum_exp(logits[allowed]) - log_total)
        others[token] = -np.inf
        runner_up = int(others.argmax())
        if others[runner_up] == -np.inf:
            runner_up = token
        return Choice(
            float(logits[token]) - log_total,
            runner_up,
            float(logits[runner_up]) - log_total,
            log_allowed,
        )

    def _params_at(self, depth: int) -> DecodeParams:
        return self._endless if depth < self._num_short else self._params

    def _before(self, row: int) -> Sequence[int]:
        """For the penalties."""
        if not self._params.penalised:
            return ()  # a copy of the history for each row would be for nothing
        return [*self._history, *self._drafted(row)]

    def _allowed(self, row: int) -> NDArray[np.intp] | None:
        constraint = self._params.constraint
        if constraint is None:
            return None
        begin = len(self._history) - self._num_new
        return constraint.allowed([*self._history[begin:], *self._drafted(row)])

    def _drafted(self, row: int) -> list[int]:
        return [self._draft.token_ids[node] for node in self._draft.path(row - 1)]


def _log_sum_exp(logits: Logits) -> float:
    top = logits.max()
    return float(top) + float(np.log(np.exp(logits - top).sum(dtype=np.float64)))
