"""The figures as one page of HTML that needs nothing from anywhere: no script, font or picture.

Well-formed as XML too. Light or dark as the browser is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape
from importlib import resources

from lsp_server.report.charts import CHARTS, Chart
from lsp_server.report.figures import Figures
from lsp_server.report.wording import number, percent, time


def html_page(figures: Figures, made: datetime) -> str:
    """The whole page; `made` is the local time that it tells."""
    if figures.counts["requests"]:
        cards = "".join(_card(*entry) for entry in _headlines(figures))
        plots = "".join(_plot(chart, chart.draw(figures)) for chart in CHARTS)
        body = f'<div class="cards">{cards}</div><div class="plots">{plots}</div>'
        hint = " Rest the mouse on a bar for its numbers."
    else:
        body, hint = _WELCOME, ""
    since = f"Since {escape(figures.since)}. " if figures.since else ""
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>tabahead: statistics</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>tabahead</h1>
<p>{since}Counted on this machine, and kept on it: numbers only, never text.</p>
</header>
<main>{body}</main>
<footer>Made {made:%Y-%m-%d %H:%M} by <code>tabahead stats --html</code>.{hint}</footer>
</body>
</html>
"""


_WELCOME = """<section class="welcome">
<h2>Nothing has been counted yet</h2>
<p>Open a file in your editor and type: once completions come, this page shows how fast they were,
how many you took, and what speculation was worth.</p>
<p>Nothing comes? <code>tabahead doctor</code> says what works, and how to mend what does not.</p>
</section>"""


def _headlines(figures: Figures) -> Sequence[tuple[str, str, str]]:
    """Name, figure, and what it is made of."""
    counts = figures.counts
    taken = figures.num_taken / counts["shown"] if counts["shown"] else None
    watched = counts["kept"] + counts["not_kept"]
    answers = figures.all_latency
    per_pass = figures.share("tokens", "passes")
    return (
        ("Accepted", percent(taken), f"{number(figures.num_taken)} of {number(counts['shown'])}"),
        ("Keystrokes saved", number(figures.keystrokes_saved), "one for each acceptance deducted"),
        (
            "Kept after 30 s",
            percent(figures.share("kept", "kept", "not_kept")),
            f"of {number(watched)} that were watched" if watched else "nothing was watched yet",
        ),
        (
            "Time to an item",
            time(answers.percentile(0.5)),
            f"95% within {time(answers.percentile(0.95))}" if answers.count else "no item yet",
        ),
        (
            "Tokens a pass",
            "-" if per_pass is None else f"{per_pass:.2f}",
            f"{number(counts['tokens'])} tokens in {number(counts['passes'])} passes",
        ),
        (
            "Prompt reused",
            percent(figures.share("reused_tokens", "prompt_tokens")),
            f"of {number(counts['prompt_tokens'])} tokens",
        ),
    )


def _card(name: str, figure: str, below: str) -> str:
    return (
        f'<section class="card"><i>{escape(name)}</i><b>{escape(figure)}</b>'
        f"<p>{escape(below)}</p></section>"
    )


def _plot(chart: Chart, drawn: str | None) -> str:
    inside = drawn or f'<div class="nothing">{escape(chart.without)}</div>'
    return (
        f'<section class="plot {chart.width}" id="{chart.name}"><h2>{escape(chart.title)}</h2>'
        f"<p>{escape(chart.explains)}</p>{inside}</section>"
    )
