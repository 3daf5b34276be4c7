"""The page of `stats --html` in a browser: no overlaps, in light and dark, narrow and wide.

A script in a copy of the page measures what the browser has made of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lsp_server.report.figures import Figures
from lsp_server.report.page import html_page
from lsp_server.statistics.file import Counters
from tests.made_up_counters import TODAY, made_up

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

BACKGROUND = {"light": "rgb(244, 245, 247)", "dark": "rgb(16, 19, 24)"}

MEASURE = """
const box = e => e.getBoundingClientRect();
const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
  && a.top < b.bottom - 1 && b.top < a.bottom - 1;
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1
  && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const all = (e, selector) => [...e.querySelectorAll(selector)];
const say = e => e.textContent;
const found = {
  width: innerWidth, scrolled: document.documentElement.scrollWidth,
  background: getComputedStyle(document.body).backgroundColor,
  plots: all(document, 'svg').length, bars: 0, overlaps: [], outside: [], unseen: [], small: [],
};
for (const section of all(document, 'section')) {
  const texts = all(section, 'text, h2, h3 span, p, b, i, .legend span');
  texts.forEach((one, at) => {
    if (!inside(box(one), box(section))) found.outside.push(say(one));
    if (parseFloat(getComputedStyle(one).fontSize) < 12) found.small.push(say(one));
    for (const other of texts.slice(at + 1)) {
      if (meet(box(one), box(other))) found.overlaps.push([say(one), say(other)]);
    }
  });
  for (const bar of all(section, 'g rect:not(.hit):not(.track)')) {
    found.bars += 1;
    const size = box(bar);
    if (!inside(size, box(section))) found.outside.push(say(bar.parentNode));
    if (size.width < 1 || size.height < 1) found.unseen.push(say(bar.parentNode));
    for (const text of all(section, 'text')) {
      if (meet(size, box(text))) found.overlaps.push([say(text), say(bar.parentNode)]);
    }
  }
}
document.body.dataset.found = JSON.stringify(found);
"""


def measured(counters: Counters, scheme: str, width: int, folder: Path) -> dict[str, Any]:
    """What the browser has drawn of the page, without a window."""
    page = html_page(Figures.of(counters, TODAY), datetime(2026, 3, 14))
    without_policy, replaced = re.subn(r'<meta http-equiv="Content-Security-Policy".*?/>', "", page)
    assert replaced == 1, "the policy of the page lets no script run"
    path = folder / "page.html"
    path.write_text(
        without_policy.replace("</body>", f"<script>{MEASURE}</script></body>"), "utf-8"
    )
    command = [
        str(CHROMIUM),
        *("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
        f"--window-size={width},1000",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
        f"--user-data-dir={folder / 'profile'}",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    match = re.search(r'data-found="(.*?)"', done.stdout)
    assert match, done.stderr
    found: dict[str, Any] = json.loads(match[1].replace("&quot;", '"').replace("&amp;", "&"))
    return found


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 500), ("light", 760)])
def test_a_browser_lays_the_page_out_without_overlaps(tmp_path, scheme, width):
    found = measured(made_up(), scheme, width, tmp_path)
    assert found["background"] == BACKGROUND[scheme]
    assert found["scrolled"] <= found["width"], "nothing reaches beyond the width"
    assert found["plots"] == 9
    assert found["bars"] > 100
    for fault in ("overlaps", "outside", "unseen", "small"):
        assert found[fault] == [], fault


def test_a_browser_shows_a_friendly_page_where_nothing_was_counted(tmp_path):
    found = measured(Counters(), "dark", 500, tmp_path)
    assert found["plots"] == 0
    assert found["scrolled"] <= found["width"]
    assert found["outside"] == found["overlaps"] == []
