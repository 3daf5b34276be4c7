"""Rules of ignore files: git's own answers for random patterns, and the cases that people write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.files.ignore_rules import MAX_RULES, last_match, parse
from tests.git_ignore import deciding_rules, new_repository

ATOMS = (
    *("a", "b", "ab", "c", ".txt", ".", "-", "é", "#", "!", " ", "{", "}", "/", "/"),
    *("*", "**", "**/", "/**", "***", "?", "\\", "\\*", "\\ ", "\\/"),
    *("[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[a-]", "[\\]a]", "[b/a]", "[", "["),
    *("[[:alpha:]]", "[[:digit:]x]", "[![:space:]]", "[[:x:]]", "[[:", "[[:]"),
)
NAMES = (
    *("a", "b", "c", "ab", "ba", "aab", "abc", "a.txt", "b.txt", ".a", "a b", "a ", "é", "x-"),
    *("*", "!a", "#a", "[", "]", "\\", "{", "}", "1", "-"),
)

patterns = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=6).map("".join)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return new_repository(tmp_path_factory.mktemp("git") / "repository")


def decides(lines, path: str) -> int | None:
    """The line of the rule that decides, as git counts: an ignored folder ignores all in it."""
    rules, parts = parse(lines), path.encode().split(b"/")
    for length in range(1, len(parts)):
        rule = last_match(rules, b"/".join(parts[:length]), True)
        if rule is not None and rule.ignores:
            return rule.line
    rule = last_match(rules, path.encode(), False)
    return rule.line if rule is not None else None


@settings(max_examples=200)
@given(
    lines=st.lists(patterns, min_size=1, max_size=4),
    line_end=st.sampled_from(["\n", "\r\n"]),
    asked=st.lists(paths, min_size=30, max_size=30),
)
def test_every_rule_decides_what_git_says_it_decides(repository, lines, line_end, asked):
    data = line_end.join(lines).encode()
    (repository / ".gitignore").write_bytes(data)
    for path, found in zip(asked, deciding_rules(repository, asked), strict=True):
        expected = None if found is None else found[1]
        assert decides(data, path) == expected, f"{data!r} and {path!r}"


@pytest.mark.parametrize(
    ("lines", "ignored", "kept"),
    [
        ("*.log", ["a.log", "x/y.log"], ["a.log.txt"]),
        ("build/", ["build/a", "x/build/a"], ["build"]),
        ("/build", ["build", "build/a"], ["x/build"]),
        ("a/b", ["a/b", "a/b/c"], ["x/a/b"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["a/xb"]),
        ("**/b", ["b", "x/y/b"], ["xb"]),
        ("a/**", ["a/b/c"], ["a", "b/a"]),
        ("*\n!keep\n", ["a"], ["keep"]),
        ("a/\n!a/keep", ["a/keep"], []),
        ("a/*\n!a/keep", ["a/b"], ["a/keep"]),
        ("#a\n\\#b\n\\!c\n\n  \n", ["#b", "!c"], ["#a", "b", "c"]),
        ("a  \nb\\ \n", ["a", "b "], ["b", "a  "]),
        ("\ufeffa", ["a"], []),
        ("a\\", [], ["a", "a\\"]),
        ("[a-c].py", ["b.py"], ["d.py", "/.py"]),
        ("a[", [], ["a", "a["]),
    ],
)
def test_what_people_write_means_what_git_says(lines, ignored, kept):
    def is_ignored(path):
        line = decides(lines.encode(), path)
        return line is not None and not lines.splitlines()[line - 1].startswith("!")

    assert [path for path in ignored if not is_ignored(path)] == []
    assert [path for path in kept if is_ignored(path)] == []


@pytest.mark.parametrize("pattern", ["*a" * 30 + "*b", "**/a/" * 20 + "b", "/**/*a*a*a" * 5 + "/b"])
@pytest.mark.parametrize("path", ["a" * 250, "a/" * 2000 + "a", ("a" * 250 + "/") * 16 + "a"])
def test_a_pattern_made_to_take_for_ever_does_not(pattern, path):
    """A matcher that tries all places for each star would not end here."""
    rules = parse(pattern.encode())
    assert last_match(rules, path.encode(), False) is None


def test_a_rule_knows_its_line_and_its_text():
    first, second = parse(b"# comment\r\n\r\n*.log\r\n  \r\n!b\xff/ \n")
    assert (first.line, first.text, first.ignores) == (3, "*.log", True)
    assert (second.line, second.text, second.ignores) == (5, "!b\ufffd/", False)


def test_of_very_many_rules_the_first_ones_are_kept():
    rules = parse(b"a\n" * (MAX_RULES + 1))
    assert len(rules) == MAX_RULES


def test_letters_of_either_case_match_where_the_system_takes_them_for_one():
    rules = parse(b"Build/[A-C]*.TXT", ignore_case=True)
    assert last_match(rules, b"bUILD/cd.txt", False) is not None
    assert last_match(parse(b"Build"), b"build", False) is None
