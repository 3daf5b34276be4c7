"""What single steps do to any text: indentation, brackets, repetition."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lsp_server.postprocess import Dropped, Edit, postprocess
from lsp_server.postprocess.indentation import fit_indentation
from lsp_server.postprocess.repetition import cut_echo, cut_endless, cut_loop
from lsp_server.postprocess.stray_closers import cut_stray_closer
from lsp_server.postprocess.talk import code_span
from lsp_server.text.brackets import CLOSERS, code_only
from lsp_server.text.indentation import IndentStyle, detect_style
from lsp_server.text.place import Place

styles = st.builds(IndentStyle, st.just(False), st.sampled_from([2, 3, 4, 8])) | st.just(
    IndentStyle(True, 4)
)
depths = st.lists(st.integers(-2, 1), min_size=1, max_size=8)
"""How much deeper each line is than the one before; 1 only behind a header."""


def block(steps, depth, style, name):
    """Lines of code: a header wherever the next line is deeper."""
    levels = [depth]
    for step in steps:
        levels.append(max(depth, levels[-1] + step))
    lines = []
    for number, level in enumerate(levels):
        is_header = number + 1 < len(levels) and levels[number + 1] > level
        lines.append(style.blanks(level * style.width) + f"{name}{number}" + ":" * is_header)
    return lines


@given(document=styles, model=styles, above=depths, steps=depths, depth=st.integers(0, 2))
def test_a_block_in_any_style_gets_that_of_the_document(document, model, above, steps, depth):
    """The model continues behind a header, with every line in a style of its own."""
    head = [*block(above, 0, document, "a"), "top:", document.blanks(document.width) + "b"]
    header = document.blanks(depth * document.width) + "header:"
    for level in range(1, depth + 1):
        head.append(document.blanks((level - 1) * document.width) + f"level{level}:")
    assume(detect_style([*head, header]) == document)
    # The model has the header's own columns right, since it sees them.
    width = document.columns(header)
    lines = block(steps, 1, model, "line")
    text = "".join(f"\n{model.blanks(width) + line}" for line in lines)
    assume(document.tabs or not model.tabs or depth == 0)  # a tab is as wide as a level
    place = Place.at("\n".join([*head, header]), len("\n".join([*head, header])))
    edit = fit_indentation(Edit(text), place)
    assert edit.text.split("\n")[1:] == block(steps, depth + 1, document, "line")


@given(style=styles, steps=depths, above=depths, num_known=st.integers(0, 3))
def test_text_in_the_documents_style_is_left_as_it_is(style, steps, above, num_known):
    head = [*block(above, 0, style, "a"), "top:", style.blanks(style.width) + "b", "header:"]
    text = "\n" + "\n".join(block(steps, 1, style, "line"))
    before = "\n".join(head)
    assert fit_indentation(Edit(text), Place.at(before, len(before))).text == text


brackets = st.text("ab ()[]{}\n", max_size=30)


@given(before=brackets, text=brackets.filter(str.strip))
def test_no_closer_is_left_that_nothing_opened(before, text):
    """At the end of a document without quotes and comments, where characters are all there is."""
    outcome = cut_stray_closer(Edit(text), Place.at(before, len(before)))
    kept = "" if isinstance(outcome, Dropped) else outcome.text
    assert text.startswith(kept)
    for closer, opener in CLOSERS.items():
        most = unclosed(before, opener, closer)
        depth = 0
        for character in kept:
            depth += (character == opener) - (character == closer)
            assert most + depth >= 0


@given(before=brackets, text=brackets.filter(str.strip), after=brackets)
def test_text_without_a_closer_too_many_is_left_as_it_is(before, text, after):
    depths_of_kinds = (
        depth for closer, opener in CLOSERS.items() for depth in running(text, opener, closer)
    )
    assume(min(depths_of_kinds, default=0) >= 0)
    assert cut_stray_closer(Edit(text), Place.at(before + after, len(before))) == Edit(text)


def running(text, opener, closer):
    depth = 0
    for character in text:
        depth += (character == opener) - (character == closer)
        yield depth


def unclosed(text, opener, closer):
    """Openers without their closer; a closer without opener counts for nothing."""
    depth = 0
    for character in text:
        depth = max(0, depth + (character == opener) - (character == closer))
    return depth


@given(text=st.text("()[]{}'\"#/-* \nab", max_size=40))
def test_reading_only_the_code_keeps_every_place(text):
    code = code_only(text)
    assert len(code) == len(text)
    for kept, character in zip(code, text, strict=True):
        assert kept in (character, " ")


lines = st.lists(
    st.sampled_from(["a.go(1)", "b = 2", "return c", "  d()", "}", "", "x, y,"]), max_size=12
)


@given(lines=lines, above=lines)
def test_what_is_kept_of_a_loop_or_an_echo_is_a_piece_of_the_text(lines, above):
    before = "".join(f"{line}\n" for line in above)
    place = Place.at(before, len(before))
    text = "\n".join(lines)
    loop = cut_loop(Edit(text), place)
    if isinstance(loop, Edit):
        assert text.startswith(loop.text)
    echo = cut_echo(Edit(text), place)
    if isinstance(echo, Edit):
        assert text.endswith(echo.text)
    endless = cut_endless(Edit(text), place)
    if isinstance(endless, Edit):
        assert text.startswith(endless.text)


@given(lines=st.lists(st.sampled_from([f"call_{n}(x)" for n in range(30)]), unique=True))
def test_lines_that_all_differ_are_no_loop(lines):
    text = "\n".join(lines)
    assert cut_loop(Edit(text), Place.at("", 0)) == Edit(text)


@given(lines=lines, num=st.integers(3, 6))
def test_a_loop_is_shown_once(lines, num):
    unit = "\n".join([*lines, f"step({len(lines)})"])
    text = cut_loop(Edit("\n".join([unit] * num)), Place.at("", 0)).text
    assert text.count(f"step({len(lines)})") <= 1


@given(text=st.text("ab \n`~:", max_size=30), cut=st.integers(0, 30))
def test_where_code_begins_only_moves_on_as_text_arrives(text, cut):
    """Or what was decided at one piece would be undone at the next."""
    place = Place.at("x = ", 4)
    early, late = code_span(text[:cut], place)[0], code_span(text, place)[0]
    is_undecided = early == len(text[:cut])
    assert early <= late or is_undecided


PYTHON = """\
import os


class Shelf:
    \'\'\'Books by author.

    Example:
        Shelf(["a"]).find("a")
    \'\'\'

    def __init__(self, books, *, limit=10):
        self.books = {book.author: book for book in books}
        if len(books) > limit:
            raise ValueError(
                f"{len(books)} books are more than {limit}"
            )

    def find(self, author):
        try:
            return self.books[author]
        except KeyError:
            return None


def main():
    shelf = Shelf(load(os.environ["BOOKS"]),
                  limit=3)
    for author in ("a", "b"):
        print(shelf.find(author))
"""
JAVASCRIPT = """\
// Books by author.
const shelf = (books, limit) => {
  if (books.length > limit) {
    throw new Error(`${books.length} books`);
  } else if (books.length === 0) {
    return null;
  }
  return books.map((book) => ({
    author: book.author,
    title: book.title || '(none)',
  }));
};

/*
 * The first one.
 */
export function first(books) {
  const [book] = shelf(books, 3);
  switch (book.kind) {
    case 'a':
      go(book);
      break;
    default:
      stop([book, 1], () => {
        done();
      });
  }
}
"""
GO = """\
package shelf

// First is the first book.
func First(books []Book, limit int) (*Book, error) {
\tif len(books) > limit {
\t\treturn nil, fmt.Errorf("%d books (of %d)", len(books), limit)
\t}
\tfor i, book := range books {
\t\tif book.Title == "" {
\t\t\tcontinue
\t\t}
\t\treturn &books[i], nil
\t}
\treturn nil, errNone
}
"""


@pytest.mark.parametrize(
    ("language", "document"), [("python", PYTHON), ("javascript", JAVASCRIPT), ("go", GO)]
)
def test_text_that_is_right_is_at_most_cut(language, document):
    """Every line, and every two and three lines, taken out and written again by the model."""
    lines = document.split("\n")
    num_whole = num_cases = 0
    for index, line in enumerate(lines):
        for num in (1, 2, 3):
            taken = "\n".join(lines[index : index + num])
            if not line.strip() or not taken.strip():
                continue
            indent = len(line) - len(line.lstrip())
            before = "\n".join([*lines[:index], line[:indent]])
            after = "".join(f"\n{rest}" for rest in lines[index + num :])
            place = Place.at(before + after, len(before), language_id=language)
            edit = postprocess(taken[indent:], place)
            shown = edit.text if isinstance(edit, Edit) else ""
            assert taken[indent:].startswith(shown)
            num_cases += 1
            num_whole += shown == taken[indent:].rstrip()
    assert num_whole >= 0.95 * num_cases
