"""Raw model text -> the edit that is shown, as a list of small pure steps.

Every step takes `(edit, place)` and gives the edit on, or `Dropped` with the reason code. No step
knows a model, a document or an editor.
"""

from __future__ import annotations

from collections.abc import Callable

from lsp_server.completion import Reason
from lsp_server.postprocess.blanks import cut_trailing_blanks, join_blanks, skip_leading_breaks
from lsp_server.postprocess.crossed_closers import cut_crossed
from lsp_server.postprocess.indentation import fit_indentation
from lsp_server.postprocess.markers import cut_markers
from lsp_server.postprocess.next_lines import cut_next_lines, stand_above
from lsp_server.postprocess.repetition import cut_echo, cut_endless, cut_loop
from lsp_server.postprocess.stray_closers import cut_stray_closer
from lsp_server.postprocess.suffix import cover_rest
from lsp_server.postprocess.talk import unwrap_code
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.place import Place

Step = Callable[[Edit, Place], Edit | Dropped]


def drop_empty(edit: Edit, place: Place) -> Edit | Dropped:
    return edit if edit.text.strip() else Dropped(Reason.EMPTY)


STEPS: tuple[Step, ...] = (
    # What no document may ever get.
    cut_markers,
    unwrap_code,
    # The seam with the text before the cursor.
    cut_echo,
    skip_leading_breaks,
    join_blanks,
    # Every line where the document would have it.
    fit_indentation,
    # The end of the text: where it goes round in circles, or into the lines that follow.
    cut_loop,
    cut_endless,
    cut_next_lines,
    cut_trailing_blanks,
    drop_empty,
    # What nothing right can stand behind.
    cut_crossed,
    # The seam with the rest of the cursor's line; nothing may cut the text behind it, since it may
    # have said again what is replaced.
    cover_rest,
    cut_stray_closer,
    stand_above,
)


def postprocess(raw: str, place: Place, *, is_ended: bool = False) -> Edit | Dropped:
    """Run all steps in order; the first that drops the text ends it.

    `raw` has `\\n` line ends only; `is_ended` where the model has ended it by itself.
    """
    edit = Edit(raw, is_ended=is_ended)
    for step in STEPS:
        outcome = step(edit, place)
        if isinstance(outcome, Dropped):
            return outcome
        edit = outcome
    return edit


__all__ = ["STEPS", "Dropped", "Edit", "postprocess"]
