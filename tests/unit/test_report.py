"""Figures, table and page made of counters: right numbers, and nothing needed from anywhere."""

from __future__ import annotations

import json
import re
from datetime import date, datetime, timedelta
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import Origin, Reason
from lsp_server.report.charts import CHARTS
from lsp_server.report.figures import ORIGINS, OVERTAKEN, Figures, Latency
from lsp_server.report.page import html_page
from lsp_server.report.plots import Column, columns, round_up
from lsp_server.report.text import EMPTY, text_report
from lsp_server.report.wording import REASONS, counted, number, percent, time
from lsp_server.statistics.counting import latency_class
from lsp_server.statistics.file import NUM_DAYS, Counters
from tests.made_up_counters import TODAY, made_up

NOON = datetime(2026, 3, 14, 12, 0)


def figures_of(**totals: int) -> Figures:
    return Figures.of(Counters(totals={n.replace("__", "."): c for n, c in totals.items()}), TODAY)


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))


# Figures


@given(st.lists(st.floats(0, 20_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_lies_in_the_class_of_the_true_one(times, share):
    totals: dict[str, int] = {}
    for ms in times:
        name = f"latency_ms.engine.{latency_class(ms)}"
        totals[name] = totals.get(name, 0) + 1
    found = Figures.of(Counters(totals=totals), TODAY).latency["engine"].percentile(share)
    true = sorted(times)[-(-len(times) * round(share * 100) // 100) - 1]
    assert found is not None
    assert latency_class(max(found, 1e-9)) in (latency_class(true), "<=10000")
    assert latency_class(true) == ">10000" or found <= 10_000


def test_a_percentile_is_taken_as_if_times_lay_evenly_in_their_class():
    latency = Latency(((0.0, 100.0, 50), (100.0, 200.0, 50)))
    assert latency.percentile(0.5) == 100.0
    assert latency.percentile(0.75) == 150.0
    assert latency.percentile(0.25) == 50.0
    assert Latency(((0.0, 100.0, 1), (5000.0, None, 3))).percentile(0.99) == 5000.0
    assert Latency().percentile(0.5) is None


def test_the_latencies_of_all_origins_have_the_same_classes_and_add_up():
    figures = Figures.of(made_up(), TODAY)
    axes = [[entry[:2] for entry in latency.classes] for latency in figures.latency.values()]
    assert list(figures.latency) == list(ORIGINS)
    assert axes[0] == axes[1] == axes[2] == [entry[:2] for entry in figures.all_latency.classes]
    assert figures.all_latency.count == sum(found.count for found in figures.latency.values())


def test_classes_of_an_older_version_are_shown_beside_the_present_ones():
    totals = {"latency_ms.engine.>5000": 2, "latency_ms.engine.>10000": 1}
    latency = Figures.of(Counters(totals=totals), TODAY).latency["engine"]
    assert latency.count == 3
    assert {(5000.0, None, 2), (10000.0, None, 1)} <= set(latency.classes)


def test_taken_items_count_once_and_each_acceptance_costs_a_key():
    figures = figures_of(
        accepted=5, accepted_in_parts=2, partially_accepted=3, characters=100, shown=20,
        parts__word=4, parts__line=1,
    )  # fmt: skip
    assert figures.num_taken == 6
    assert figures.keystrokes_saved == 100 - 5 - 4 - 1


def test_the_tokens_of_passes_are_those_of_the_accepted_positions():
    totals = {
        "passes": 10,
        "sources.lookup.proposed": 9,
        "positions.lookup.1.drafted": 4,
        "positions.lookup.1.accepted": 3,
        "positions.lookup.2.accepted": 1,
        "sources.corpus.proposed": 2,
        "positions.corpus.1.accepted": 2,
        "positions.corpus.2.accepted": 0,
    }
    figures = Figures.of(Counters(totals=totals), TODAY)
    assert figures.yields == (5, 4, 1)
    assert figures.sources["lookup"].positions == ((4, 3), (0, 1))


def test_days_and_hours_are_those_of_the_last_days_only():
    counters = Counters()
    for ago, number_of in ((0, 1), (NUM_DAYS - 1, 2), (NUM_DAYS, 4)):
        counters.add("shown", number_of, f"{TODAY - timedelta(days=ago)}T09")
    figures = Figures.of(counters, TODAY)
    assert (figures.days[-1].shown, figures.days[0].shown) == (1, 2)
    assert [span.shown for span in figures.hours] == [3 if h == 9 else 0 for h in range(24)]
    assert len(figures.days) == NUM_DAYS


def test_names_that_no_version_has_written_are_passed_over():
    totals = {"latency_ms.engine.?": 1, "positions.lookup.x.drafted": 1, "nonsense": 3, "": 1}
    figures = Figures.of(Counters(totals={**totals, "requests": 1}), TODAY)
    assert parsed(html_page(figures, NOON)) is not None
    assert text_report(figures)


def test_the_figures_are_plain_json():
    figures = json.loads(json.dumps(Figures.of(made_up(), TODAY).as_json()))
    assert figures["latency"]["engine"]["p50_ms"] > figures["latency"]["cache"]["p50_ms"] > 0
    assert figures["sources"]["lookup"]["positions"][0]["drafted"] > 0
    assert figures["tokens_per_pass"] == round(figures["tokens"] / figures["passes"], 3)
    assert len(figures["hours"]) == 24
    assert (
        sum(figures["empty"].values())
        + sum(latency["count"] for latency in figures["latency"].values())
        == (figures["requests"])
    )


# Words


def test_every_reason_and_origin_has_its_words():
    assert set(REASONS) == {reason.value for reason in Reason}
    assert {reason.value for reason in Reason} >= OVERTAKEN
    assert {origin.value for origin in Origin} == set(ORIGINS)


def test_numbers_are_as_people_read_them():
    assert [number(n) for n in (7, 1234, 5_000_000)] == ["7", "1,234", "5,000,000"]
    assert [percent(x) for x in (None, 0.0, 0.014, 0.5, 1.0)] == ["-", "0%", "1.4%", "50%", "100%"]
    assert [time(ms) for ms in (None, 0.84, 45.2, 994, 996, 12_340)] == [
        *("-", "0.8 ms", "45 ms", "994 ms", "1.0 s", "12.3 s")
    ]
    assert (counted(1, "pass", "passes"), counted(2, "pass", "passes")) == ("1 pass", "2 passes")


# The table


def test_the_table_has_its_sections_and_figures():
    report = text_report(Figures.of(made_up(), TODAY))
    for title in ("Completions", "Time to an item", "No item because", "Engine", "Drafts"):
        assert f"\n{title}" in report
    assert re.search(r"typed through +\d", report)
    assert re.search(r"superseded +[\d,]+ +\d+% +overtaken by a newer request", report)
    assert report.isascii(), "any terminal can show it"


def test_a_table_of_nothing_says_so():
    assert text_report(figures_of()) == EMPTY


# The page


@pytest.mark.parametrize(
    "counters",
    [made_up(), Counters(), Counters(totals={"requests": 3, "empty.model-missing": 3})],
    ids=["full", "empty", "without items"],
)
def test_the_page_is_well_formed_and_needs_nothing_from_anywhere(counters):
    page = html_page(Figures.of(counters, TODAY), NOON)
    tree = parsed(page)
    assert [child.tag for child in tree] == ["head", "body"]
    assert "://" not in page
    assert not re.search(r"url\(|@import|@font-face", page)
    allowed = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer", "p"}
    allowed |= {"section", "div", "h1", "h2", "h3", "b", "i", "span", "code"}
    allowed |= {"svg", "g", "rect", "line", "text"}
    assert {element.tag for element in tree.iter()} <= allowed
    assert all({"src", "href"}.isdisjoint(element.keys()) for element in tree.iter())
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_all_plots_are_there_with_their_bars_and_tips():
    tree = parsed(html_page(Figures.of(made_up(), TODAY), NOON))
    for chart in CHARTS:
        (section,) = tree.findall(f".//section[@id='{chart.name}']")
        plots = section.findall("svg")
        assert len(plots) == (len(ORIGINS) if chart.name == "latency" else 1)
        for plot in plots:
            assert plot.get("aria-label")
            groups = plot.findall("g")
            assert groups
            assert all(group.findtext("title") for group in groups)
            assert any(
                float(bar.get("height", "0")) > 2
                for group in groups
                for bar in group.findall("rect")
                if bar.get("class") not in ("hit", "track")
            )


def test_no_bar_leaves_its_plot():
    tree = parsed(html_page(Figures.of(made_up(), TODAY), NOON))
    for plot in tree.iter("svg"):
        height = float(plot.get("height", ""))
        for bar in plot.iter("rect"):
            left, width = (float(bar.get(name, "").rstrip("%")) for name in ("x", "width"))
            top, size = (float(bar.get(name, "")) for name in ("y", "height"))
            assert 0 <= left <= left + width <= 100.01
            assert 0 <= top <= top + size <= height


def test_a_page_of_nothing_is_friendly_and_has_no_plots():
    tree = parsed(html_page(figures_of(), NOON))
    text = "".join(tree.itertext())
    assert "Nothing has been counted yet" in text
    assert "tabahead doctor" in text
    assert tree.findall(".//svg") == []


def test_what_has_nothing_to_show_says_so_instead_of_an_empty_plot():
    tree = parsed(html_page(figures_of(requests=1, empty__prose=1), NOON))
    for chart in CHARTS:
        (section,) = tree.findall(f".//section[@id='{chart.name}']")
        if chart.name == "reasons":
            assert section.find("svg") is not None
        else:
            assert section.find("svg") is None
            assert section.findtext("div[@class='nothing']") == chart.without


def test_names_from_the_file_are_text_and_no_markup():
    odd = {"requests": 1, "empty.<script>": 1, 'sources."&.proposed': 5, 'sources."&.accepted': 1}
    page = html_page(Figures.of(Counters(totals=odd, since="2026-01-01"), TODAY), NOON)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert parsed(page) is not None


@given(st.floats(0, 1e9))
def test_an_axis_is_as_high_as_its_highest_bar_and_its_half_is_whole(value):
    top = round_up(value)
    assert value <= top
    assert top / 2 == int(top / 2)
    assert top <= max(2.0, 2 * value)


def test_a_bar_is_as_high_as_its_share_of_the_axis():
    plot = ElementTree.fromstring(
        columns(
            [Column("a", "tip", (10.0,)), Column("b", "tip", (5.0,))],
            label="plot", classes=("engine",), height=108, top=10,
        )
    )  # fmt: skip
    bars = [bar for bar in plot.iter("rect") if bar.get("class") == "engine"]
    assert [float(bar.get("height", "")) for bar in bars] == [100.0, 50.0]


def test_the_days_of_the_page_end_today():
    tree = parsed(html_page(Figures.of(made_up(), TODAY), NOON))
    (section,) = tree.findall(".//section[@id='days']")
    *_, last = section.findall("svg/g")
    assert (last.findtext("title") or "").startswith(date.isoformat(TODAY))
