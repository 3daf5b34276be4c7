"""How each family of models is asked to fill in the middle: which marker stands where.

Markers are control tokens, known by their id; text of a document never becomes one. A model without
them continues what stands before the cursor. What a family was trained on is in the source named
with it. Knows no tokenizer: whoever asks tells how a marker is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Part(Enum):
    """What a prompt is put together from."""

    BEGIN = auto()
    """The token that begins every text, in vocabularies that have one."""
    FILES = auto()
    """Other files and the path of this one, behind the family's markers for files."""
    PREFIX_MARKER = auto()
    SUFFIX_MARKER = auto()
    MIDDLE_MARKER = auto()
    ABOVE = auto()
    """The text before the cursor's line."""
    LINE = auto()
    """The cursor's line up to the cursor: what the generation continues."""
    SUFFIX = auto()
    """The text after the cursor."""


Layout = tuple[Part, ...]

PLAIN: Layout = (Part.BEGIN, Part.FILES, Part.ABOVE, Part.LINE)

PREFIX_FIRST: Layout = (
    *(Part.BEGIN, Part.FILES),
    *(Part.PREFIX_MARKER, Part.ABOVE),
    *(Part.SUFFIX_MARKER, Part.SUFFIX),
    *(Part.MIDDLE_MARKER, Part.LINE),
)
"""Prefix, suffix, middle (Bavarian et al. 2022, Efficient Training of Language Models to Fill in
the Middle). The cursor's line is told as the beginning of the middle: so a key on it only adds to
the end of the prompt, and the suffix need not be read again with each (llama.vim does so)."""

SUFFIX_FIRST: Layout = (
    *(Part.BEGIN, Part.FILES),
    *(Part.PREFIX_MARKER, Part.SUFFIX_MARKER, Part.SUFFIX),
    *(Part.MIDDLE_MARKER, Part.ABOVE, Part.LINE),
)
"""Suffix, then prefix and middle as one text: the second variant of the same paper, section 4.3."""

SUFFIX_THEN_PREFIX: Layout = (
    *(Part.BEGIN, Part.FILES),
    *(Part.SUFFIX_MARKER, Part.SUFFIX),
    *(Part.PREFIX_MARKER, Part.ABOVE, Part.LINE),
)


@dataclass(frozen=True, slots=True)
class Family:
    """Models that were trained on the same markers, by their spelling in the vocabulary."""

    name: str
    prefix: str
    suffix: str
    middle: str = ""
    """Empty: the layout has none."""
    layout: Layout = PREFIX_FIRST
    file: str = ""
    """Stands before the path of each file; empty: paths stand in comments."""
    repository: str = ""
    """Stands before the name of the repository, which begins the text."""
    telling: tuple[str, ...] = ()
    """Further markers by which the family is told from others with the same three."""
    ends: tuple[str, ...] = ()
    """What a middle may end with, besides the ends that the manifest names."""
    lead: str = ""
    """What the family's own tokenizer puts before a text, here the one before the cursor."""

    @property
    def markers(self) -> dict[Part, str]:
        found = {
            Part.PREFIX_MARKER: self.prefix,
            Part.SUFFIX_MARKER: self.suffix,
            Part.MIDDLE_MARKER: self.middle,
        }
        return {part: spelling for part, spelling in found.items() if spelling}


_BARS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
_UNDERSCORES = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
_DASHES = ("<fim-prefix>", "<fim-suffix>", "<fim-middle>")
_FULL_WIDTH = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")  # noqa: RUF001 - DeepSeek spells so

FAMILIES = (
    # Technical report of Qwen2.5-Coder, section 3.1, and the README of its repository: infilling at
    # the level of files and of repositories.
    Family(
        "Qwen2.5-Coder",
        *_BARS,
        file="<|file_sep|>",
        repository="<|repo_name|>",
        telling=("<|file_sep|>", "<|repo_name|>"),
        ends=("<|endoftext|>", "<|im_end|>", "<|fim_pad|>"),
    ),
    # CodeGemma report, table 1, and its documentation of the prompt. It was trained on the suffix
    # first, too, but the form of that is not told.
    Family(
        "CodeGemma",
        *_BARS,
        telling=("<|file_separator|>",),
        ends=("<|file_separator|>", "<eos>"),
    ),
    # Model cards of Granite 3.3 and 4.0.
    Family(
        "Granite",
        *_BARS,
        telling=("<|filename|>", "<|reponame|>"),
        ends=("<|end_of_text|>", "<|fim_pad|>", "<|filename|>", "<|reponame|>"),
    ),
    # StarCoder 2 and The Stack v2, section 5: files of a repository; half of the infilling has the
    # suffix first, in the variant of MultiPL-E's `starcoder2.py`.
    Family(
        "StarCoder2",
        *_UNDERSCORES,
        layout=SUFFIX_FIRST,
        file="<file_sep>",
        repository="<repo_name>",
        telling=("<file_sep>", "<repo_name>"),
        ends=("<|endoftext|>", "<fim_pad>"),
    ),
    # StarCoder: may the source be with you, section 5; Granite Code Models, section 4, with its
    # tokenizer and both orders. One file a text.
    Family(
        "StarCoder, Granite Code",
        *_UNDERSCORES,
        layout=SUFFIX_FIRST,
        telling=("<filename>", "<reponame>"),
        ends=("<|endoftext|>", "<fim_pad>", "<filename>", "<reponame>"),
    ),
    # SantaCoder: don't reach for the stars, section 4.
    Family("SantaCoder", *_DASHES, layout=SUFFIX_FIRST, ends=("<|endoftext|>", "<fim-pad>")),
    # README of the DeepSeek-Coder repository: code insertion; several files behind comments that
    # hold their paths.
    Family(
        "DeepSeek-Coder",
        *_FULL_WIDTH,
        ends=("<｜end▁of▁sentence｜>", "<|EOT|>"),  # noqa: RUF001 - DeepSeek spells so
    ),
    # Code Llama: Open Foundation Models for Code, section 2.3, and its repository's
    # `infilling_prompt_tokens`, which has the form with the suffix first.
    Family(
        "CodeLlama",
        *("▁<PRE>", "▁<SUF>", "▁<MID>"),
        layout=SUFFIX_FIRST,
        ends=("▁<EOT>", "</s>"),
        lead=" ",
    ),
    # `encode_fim` of mistral-common.
    Family(
        "Codestral",
        *("[PREFIX]", "[SUFFIX]"),
        layout=SUFFIX_THEN_PREFIX,
        ends=("[MIDDLE]", "</s>"),
        lead=" ",
    ),
    # Others with these markers: the order that every family knows.
    Family("other", *_BARS),
    Family("other", *_UNDERSCORES),
)
"""A model is of the first that has all its markers."""

_BEGINS = ("<s>", "<bos>", "<｜begin▁of▁sentence｜>")  # noqa: RUF001 - DeepSeek spells so

_ROLES = {
    "prefix": Part.PREFIX_MARKER,
    "suffix": Part.SUFFIX_MARKER,
    "middle": Part.MIDDLE_MARKER,
}
"""As manifests call the markers."""


@dataclass(frozen=True, slots=True)
class Template:
    """How the prompts of one model are put together; ids are of its vocabulary."""

    family: str = "none"
    layout: Layout = PLAIN
    markers: Mapping[Part, int] = field(default_factory=dict)
    """Ids of the parts that are one token each; a part that has none is left out."""
    file_id: int | None = None
    repository_id: int | None = None
    lead: str = ""
    end_ids: frozenset[int] = frozenset()
    """What ends a generation: markers are no text."""

    @property
    def infills(self) -> bool:
        return Part.SUFFIX in self.layout

    def describe(self) -> str:
        """For `doctor`: the family and the order, or that there is none."""
        if not self.infills:
            return "not supported by this model, prefix only"
        is_suffix_first = self.layout.index(Part.SUFFIX) < self.layout.index(Part.ABOVE)
        return f"{self.family}, {'suffix' if is_suffix_first else 'prefix'} first"


def template_for(
    control_id: Callable[[str], int | None], declared: Mapping[str, int] | None = None
) -> Template:
    """The template of a model.

    Args:
        control_id: the id of a control token by its spelling; None where there is none.
        declared: the markers that the manifest names (prefix, suffix, middle). Where no family has
            just these, they are used in the order that every family knows; where there are none,
            the vocabulary alone decides.
    """
    named = {_ROLES[role]: token_id for role, token_id in (declared or {}).items()}
    begin = _first(map(control_id, _BEGINS))
    begins = {} if begin is None else {Part.BEGIN: begin}
    for family in FAMILIES:
        ids = {part: control_id(spelling) for part, spelling in family.markers.items()}
        found = {part: token_id for part, token_id in ids.items() if token_id is not None}
        is_known = len(found) == len(ids) and None not in map(control_id, family.telling)
        if is_known and all(named.get(part, found[part]) == found[part] for part in found):
            return _template(family, begins | found, control_id)
    if len(named) == len(_ROLES):
        markers = begins | named
        return Template("other", PREFIX_FIRST, markers, end_ids=frozenset(markers.values()))
    return Template(markers=begins, end_ids=frozenset(begins.values()))


def _first(ids: Iterable[int | None]) -> int | None:
    return next((token_id for token_id in ids if token_id is not None), None)


def _template(
    family: Family, markers: Mapping[Part, int], control_id: Callable[[str], int | None]
) -> Template:
    file_id, repository_id = control_id(family.file), control_id(family.repository)
    ends = {*markers.values(), file_id, repository_id, *map(control_id, family.ends)}
    return Template(
        family.name,
        family.layout,
        markers,
        file_id,
        repository_id,
        family.lead,
        frozenset(token_id for token_id in ends if token_id is not None),
    )
