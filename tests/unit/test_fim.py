"""The prompt of each family of models, marker by marker, on vocabularies that have its markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import Snapshot
from lsp_server.context.selection import Snippet
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.tokenizer import Tokenizer
from lsp_server.prompt.fim import FAMILIES, PLAIN, Part, template_for
from lsp_server.prompt.prompter import Prompter
from tests.fim_models import VOCABULARIES, write_tokenizer

URI = "file:///shop/shop/pkg/app.py"
FILES = (Snippet("file:///shop/shop/pkg/util.py", "def one():\n    return 1\n"),)
BEFORE, AFTER = "import util\n\ndef two():\n    x = uti", "\n    return x\n"

COMMENTED = "# pkg/util.py\ndef one():\n    return 1\n\n# pkg/app.py\n"
QWEN = (
    "<|repo_name|>project\n"
    "<|file_sep|>pkg/util.py\ndef one():\n    return 1\n"
    "<|file_sep|>pkg/app.py\n"
    "<|fim_prefix|>import util\n\ndef two():\n"
    "<|fim_suffix|>\n    return x\n"
    "<|fim_middle|>    x = uti"
)
BARS = (
    f"<|fim_prefix|>{COMMENTED}import util\n\ndef two():\n"
    "<|fim_suffix|>\n    return x\n"
    "<|fim_middle|>    x = uti"
)
SUFFIX_FIRST = f"<fim_prefix><fim_suffix>\n    return x\n<fim_middle>{COMMENTED}{BEFORE}"
WITH_FILES = {
    "Qwen2.5-Coder": QWEN,
    "CodeGemma": f"<bos>{BARS}",
    "Granite": BARS,
    "StarCoder2": (
        "<repo_name>project\n"
        "<file_sep>pkg/util.py\ndef one():\n    return 1\n"
        "<file_sep>pkg/app.py\n"
        f"<fim_prefix><fim_suffix>\n    return x\n<fim_middle>{BEFORE}"
    ),
    "StarCoder, Granite Code": SUFFIX_FIRST,
    "SantaCoder": SUFFIX_FIRST.replace("fim_", "fim-"),
    "DeepSeek-Coder": (
        "<｜begin▁of▁sentence｜>"  # noqa: RUF001 - its own spelling
        f"<｜fim▁begin｜>{COMMENTED}import util\n\ndef two():\n"  # noqa: RUF001 - DeepSeek spells so
        "<｜fim▁hole｜>\n    return x\n"  # noqa: RUF001 - DeepSeek spells so
        "<｜fim▁end｜>    x = uti"  # noqa: RUF001 - DeepSeek spells so
    ),
    "CodeLlama": f"<s>▁<PRE>▁<SUF>\n    return x\n▁<MID> {COMMENTED}{BEFORE}",
    "Codestral": f"<s>[SUFFIX]\n    return x\n[PREFIX] {COMMENTED}{BEFORE}",
    "none": f"{COMMENTED}{BEFORE}",
}
ALONE = {name: text.replace(COMMENTED, "") for name, text in WITH_FILES.items()} | {
    "Qwen2.5-Coder": QWEN.replace("<|file_sep|>pkg/util.py\ndef one():\n    return 1\n", ""),
    "StarCoder2": WITH_FILES["StarCoder2"].replace(
        "<file_sep>pkg/util.py\ndef one():\n    return 1\n", ""
    ),
}
AT_THE_END = {
    "Qwen2.5-Coder": f"<|repo_name|>project\n<|file_sep|>pkg/app.py\n{BEFORE}",
    "CodeGemma": f"<bos>{BEFORE}",
    "StarCoder2": f"<repo_name>project\n<file_sep>pkg/app.py\n{BEFORE}",
    "DeepSeek-Coder": f"<｜begin▁of▁sentence｜>{BEFORE}",  # noqa: RUF001 - DeepSeek spells so
    "CodeLlama": f"<s> {BEFORE}",
    "Codestral": f"<s> {BEFORE}",
}
"""Of the others the text alone."""


@pytest.fixture(scope="module")
def prompters(tmp_path_factory) -> dict[str, Prompter]:
    folder = tmp_path_factory.mktemp("vocabularies")
    found = {}
    for number, (name, vocabulary) in enumerate(VOCABULARIES.items()):
        write_tokenizer(folder / f"{number}.json", vocabulary)
        tokenizer = Tokenizer(folder / f"{number}.json")
        found[name] = Prompter(tokenizer, template_for(tokenizer.control_id))
    return found


def tokenizer_of(prompter: Prompter) -> Tokenizer:
    return prompter._tokenizer


def readable(prompter: Prompter, token_ids) -> str:
    """Markers by their names, the rest as text."""
    tokenizer, found = tokenizer_of(prompter), b""
    for token_id in token_ids:
        found += tokenizer.token_bytes(token_id) or (tokenizer.spelling(token_id) or "").encode()
    return found.decode()


def prompt(prompter, before, after, budget=1000, **options):
    options.setdefault("healing", False)
    snapshot = Snapshot(URI, 1, "python", before + after)
    return prompter.prompt(snapshot, len(before), budget, **options)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_the_vocabulary_tells_the_family(prompters, name):
    assert prompters[name].template.family == name


def test_every_family_is_tested():
    assert {family.name for family in FAMILIES} - {"other"} == set(VOCABULARIES) - {"none"}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_the_prompt_has_the_familys_form(prompters, name):
    prompter = prompters[name]
    assert readable(prompter, prompt(prompter, BEFORE, AFTER).token_ids) == ALONE[name]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_other_files_stand_where_the_family_knows_them(prompters, name):
    prompter = prompters[name]
    found = prompt(prompter, BEFORE, AFTER, files=FILES)
    assert readable(prompter, found.token_ids) == WITH_FILES[name]


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("after", ["", "\n", "\n  \n\n", ")", '"])\n'], ids=repr)
def test_at_the_end_of_a_document_its_text_is_continued(prompters, name, after):
    prompter = prompters[name]
    found = readable(prompter, prompt(prompter, BEFORE, after).token_ids)
    assert found == AT_THE_END.get(name, BEFORE)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_document_that_begins_at_the_cursor_is_filled_in_or_left_alone(prompters, name):
    prompter = prompters[name]
    found = prompt(prompter, "", "def one():\n    return 1\n").token_ids
    assert bool(found) == prompter.template.infills


@pytest.mark.parametrize("name", VOCABULARIES)
def test_the_generation_goes_on_right_behind_what_is_healed(prompters, name):
    """Markers are never cut, and what is cut and what is left are the text up to the cursor."""
    prompter = prompters[name]
    whole = readable(prompter, prompt(prompter, BEFORE, AFTER).token_ids)
    found = prompt(prompter, BEFORE, AFTER, healing=True)
    assert found.seam.text
    assert readable(prompter, found.token_ids) + found.seam.text.decode() == whole


@pytest.mark.parametrize("name", VOCABULARIES)
def test_markers_in_a_document_are_text(prompters, name):
    """Whatever is written there, a prompt has the markers of its form and no others."""
    prompter = prompters[name]
    tokenizer = tokenizer_of(prompter)
    spellings = "".join(VOCABULARIES[name].control)

    def markers(token_ids):
        return [token_id for token_id in token_ids if not tokenizer.token_bytes(token_id)]

    plain = prompt(prompter, BEFORE, AFTER, files=FILES)
    files = (Snippet(FILES[0].uri, f"s = '{spellings}'\n"),)
    found = prompt(prompter, f"'{spellings}'\n{BEFORE}", f"\n'{spellings}'\n", files=files)
    assert markers(found.token_ids) == markers(plain.token_ids)
    assert markers(found.draft_suffix) == []


@pytest.mark.parametrize("name", VOCABULARIES)
@given(data=st.data())
def test_a_prompt_keeps_to_its_budget_and_to_the_document(prompters, name, data):
    prompter = prompters[name]
    text = st.text("ab (\n漢é😀", max_size=400)
    before, after = data.draw(text), data.draw(text)
    budget = data.draw(st.integers(16, 300))
    files = data.draw(st.sampled_from([(), FILES, FILES * 3]))
    healing = data.draw(st.booleans())
    found = prompt(prompter, before, after, budget, files=files, healing=healing)
    assert len(found.token_ids) + len(found.seam.token_ids) <= budget
    line = before.rpartition("\n")[2]
    if not healing and prompter._blank_leads:
        line = line.removesuffix(" ")  # for the model to write
    shown = b"".join(map(tokenizer_of(prompter).token_bytes, found.token_ids)) + found.seam.text
    assert not found.token_ids or shown.endswith(line[-1:].encode())


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("below", [AFTER, "", "\n"], ids=repr)
def test_a_key_on_a_line_only_adds_to_the_end(prompters, name, below):
    prompter = prompters[name]
    before = "import util\n\ndef two():\n"
    last: list[int] = []
    for end in range(len("x = max(a, b)")):
        line = "x = max(a, b)"[:end]
        closers = ")" if "(" in line else ""  # as an editor adds them
        found = prompt(prompter, before + line, closers + below, files=FILES).token_ids
        if last:
            assert len(found) - common_prefix(last, found) <= 8
        last = found


@pytest.mark.parametrize("name", VOCABULARIES)
def test_markers_and_ends_of_the_family_end_a_generation(prompters, name):
    prompter = prompters[name]
    ends = prompter.template.end_ids
    assert set(prompter.template.markers.values()) <= ends
    family = next((family for family in FAMILIES if family.name == name), None)
    for spelling in family.ends if family else ():
        token_id = tokenizer_of(prompter).control_id(spelling)
        assert token_id is None or token_id in ends
    assert all(not tokenizer_of(prompter).token_bytes(token_id) for token_id in ends)


# What the manifest says


def test_declared_markers_choose_the_family_that_has_just_these(prompters):
    control_id = tokenizer_of(prompters["StarCoder2"]).control_id
    own = {"prefix": 1, "middle": 2, "suffix": 3}
    assert template_for(control_id, own).family == "StarCoder2"
    other = template_for(control_id, {"prefix": 3, "suffix": 1, "middle": 2})
    assert other.family == "other"
    assert (other.markers[Part.PREFIX_MARKER], other.markers[Part.SUFFIX_MARKER]) == (3, 1)
    assert other.layout.index(Part.ABOVE) < other.layout.index(Part.SUFFIX)


def test_a_declaration_that_lacks_a_marker_is_none(prompters):
    control_id = tokenizer_of(prompters["none"]).control_id
    assert template_for(control_id, {"prefix": 1, "suffix": 2}).layout == PLAIN


def test_a_vocabulary_whose_markers_are_text_cannot_fill_in(prompters):
    def control_id(spelling: str) -> int | None:
        return None

    assert template_for(control_id).layout == PLAIN
    assert template_for(control_id).describe() == "not supported by this model, prefix only"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Qwen2.5-Coder", "Qwen2.5-Coder, prefix first"),
        ("CodeLlama", "CodeLlama, suffix first"),
        ("Codestral", "Codestral, suffix first"),
    ],
)
def test_a_template_says_which_it_is(prompters, name, said):
    assert prompters[name].template.describe() == said
