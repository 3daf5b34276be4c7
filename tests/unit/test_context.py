"""Context: what other files say of the place, once, within its budget, and still while typing."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.asking import RequestOptions
from lsp_server.completion import CompletionResult, CompletionStats, Engine, Snapshot
from lsp_server.context.store import KEEP, STEP, ContextStore, Snippet, heading, render
from lsp_server.documents import Change, DocumentStore, Position
from lsp_server.files.exclusion import refuse_document
from lsp_server.params import InlineCompletionParams
from lsp_server.scheduler import Scheduler
from lsp_server.session import Listener, Session
from lsp_server.settings.tree import Settings

CART = '''\
import math


class ShoppingCart(Basket):
    """Items and what they cost."""

    def __init__(self, owner):
        self.owner = owner

    def add_discount(self, percent_off, reason):
        self.discounts.append((percent_off, reason))

    def grand_total(self, currency_code):
        return sum(self.prices) * rate_of(currency_code)


def rate_of(currency_code):
    return EXCHANGE_RATES[currency_code]


EXCHANGE_RATES = {
    "EUR": 1.0,
    "USD": 1.1,
}
'''
USER = """\
from shop.cart import ShoppingCart


def checkout(owner, currency_code):
    cart = ShoppingCart(owner)
    cart."""


def python(name, text):
    return Snapshot(f"file:///shop/{name}", 1, "python", text)


def store_of(*files, **limits):
    store = ContextStore(**limits)
    for name, text in files:
        store.learn(python(name, text))
    return store


def shown(store, text=USER, name="shop/main.py", budget=1200, **options):
    return store.snippets(python(name, text), len(text), budget, **options)


def test_what_an_imported_file_defines_is_shown_with_its_signatures():
    (snippet,) = shown(store_of(("shop/cart.py", CART)))
    assert snippet.uri == "file:///shop/shop/cart.py"
    for line in (
        "class ShoppingCart(Basket):\n",
        "    def add_discount(self, percent_off, reason)",
        "    def grand_total(self, currency_code)",
    ):
        assert snippet.text.count(line) == 1


def test_cells_of_a_notebook_see_each_other():
    store, cell = store_of(), "vscode-notebook-cell:/shop/a.ipynb#W{}sZmlsZQ%3D%3D"
    store.learn(Snapshot(cell.format(1), 1, "python", CART))
    text = "prices = []\nfor item in items:\n    prices.append(item)\nrate = rate_of(code)\n"
    here = Snapshot(cell.format(2), 1, "python", text)
    (snippet,) = store.snippets(here, len(text), 1200)
    assert snippet.uri == cell.format(1)
    assert "def rate_of" in snippet.text


def test_without_a_grammar_the_same_is_found_by_indentation(monkeypatch):
    monkeypatch.setattr("lsp_server.text.outline.Syntax.of", lambda *_: None)
    (snippet,) = shown(store_of(("shop/cart.py", CART)))
    assert "    def grand_total(self, currency_code)" in snippet.text


@pytest.mark.parametrize(
    ("language", "suffix", "defined", "user", "expected"),
    [
        (
            *("typescript", "ts"),
            "export class ShoppingCart {\n  addDiscount(percent: number): void {\n  }\n}\n",
            'import { ShoppingCart } from "./cart";\n\nconst cart = new ShoppingCart();\ncart.',
            "  addDiscount(percent: number): void",
        ),
        (
            *("go", "go"),
            "package shop\n\nfunc (c *ShoppingCart) AddDiscount(percent int) error {\n\tx()\n}\n",
            "package shop\n\nfunc checkout(c *ShoppingCart) {\n\tc.AddDiscount(1)\n\tc.",
            "func (c *ShoppingCart) AddDiscount(percent int) error",
        ),
        (
            *("rust", "rs"),
            "impl ShoppingCart {\n    pub fn add_discount(&self, cut: u8) -> bool {\n    }\n}\n",
            "use crate::cart::ShoppingCart;\n\nfn checkout(cart: &ShoppingCart) {\n    cart.",
            "    pub fn add_discount(&self, cut: u8) -> bool",
        ),
        (
            *("c", "h"),
            "struct shopping_cart { int t; };\nint add_discount(struct shopping_cart *c, int cut);",
            '#include "cart.h"\n\nvoid f(struct shopping_cart *c) {\n\tint t = add_discount(',
            "int add_discount(struct shopping_cart *c, int cut);",
        ),
        (
            *("kotlin", "kt"),
            "class ShoppingCart {\n    fun addDiscount(percent: Int): Boolean {\n    }\n}\n",
            "package shop\n\nfun checkout(cart: ShoppingCart) {\n    cart.",
            "    fun addDiscount(percent: Int): Boolean",
        ),
    ],
)
def test_definitions_are_found_in_every_kind_of_language(language, suffix, defined, user, expected):
    store, other = ContextStore(), f"file:///shop/shop/cart.{suffix}"
    store.learn(Snapshot(other, 1, language, defined))
    at = Snapshot(f"file:///shop/shop/main.{suffix}", 1, language, user + "\n" * STEP)
    (snippet,) = store.snippets(at, len(user + "\n" * STEP), 600)
    assert expected in snippet.text


def test_a_name_that_is_defined_in_another_file_too_is_taken_from_the_imported_one():
    store = store_of(("shop/cart.py", CART), ("old/basket.py", CART.replace("percent_off", "p")))
    assert shown(store)[-1].uri.endswith("shop/cart.py")
    user = USER.replace("shop.cart", "old.basket")
    assert shown(store, user, "shop/other.py")[-1].uri.endswith("old/basket.py")


def test_near_identical_files_are_shown_once():
    store = store_of(("shop/cart.py", CART), ("copy/cart.py", CART.replace("1.1", "1.2")))
    text = "".join(snippet.text for snippet in shown(store))
    assert text.count("def grand_total") == 1


def test_each_files_text_is_there_once_when_two_are_open_and_both_are_edited():
    store = ContextStore()
    for version in range(3):
        store.learn(python("shop/cart.py", CART + f"\n\ndef version_{version}(cart): return 1\n"))
        store.learn(python("shop/main.py", USER + "\n" * version))
        (snippet,) = shown(store)
    lines = [line for line in snippet.text.splitlines() if line.strip()]
    assert len(lines) == len(set(lines))
    assert "version_1" not in snippet.text


def test_what_nearly_says_what_stands_at_the_cursor_is_left_out():
    """Models copy what they see twice."""
    store = store_of(("shop/cart.py", CART))
    copy = (
        CART
        + "\n\nclass OtherCart(ShoppingCart):\n    def grand_total(self, currency_code):\n        "
    )
    assert shown(store, copy, "shop/copy.py") == ()


def test_a_file_that_has_nothing_to_do_with_the_place_is_not_shown():
    other = "def add(a, b):\n    return a + b\n\n\ndef get(name):\n    return name\n"
    store = store_of(("lib/numbers.py", other))
    user = "def total(items):\n    result = []\n    for item in items:\n        result.add(item)\n"
    assert shown(store, user + "\n" * STEP) == ()


def test_files_of_another_language_are_not_shown():
    store = ContextStore()
    store.learn(Snapshot("file:///shop/shop/cart.rb", 1, "ruby", CART))
    assert shown(store) == ()


def test_definitions_of_the_document_itself_are_shown_where_the_prompt_does_not_reach():
    helper = "def rate_of_currency(currency_code, day):\n    return 1\n\n\n"
    filler = "".join(f"def unrelated_{n}():\n    return {n}\n\n\n" for n in range(200))
    use = "def use():\n    x = rate_of_currency('EUR', 1)\n    y = 1\n    z = 2\n    "
    text = helper + filler + use
    store = store_of(("shop/main.py", text))
    (snippet,) = shown(store, text, held=2000)
    assert "def rate_of_currency(currency_code, day): ...\n" in snippet.text
    assert "return 1" not in snippet.text  # the body may have changed since
    assert shown(store, text, held=len(text)) == ()
    gone = "# gone\n" + filler + use
    assert shown(store, gone, name="shop/main.py", budget=1199, held=2000) == ()


def test_the_choice_rests_while_lines_are_typed():
    """Each change costs a prefill of all that follows it in the prompt."""
    rng = random.Random(0)
    files = [
        (
            f"pkg/m{n}.py",
            "".join(f"def work_{n}_{k}(value_{k}):\n    return value_{k}\n\n\n" for k in range(8)),
        )
        for n in range(20)
    ]
    store = store_of(*files)
    text, changes, last = "from pkg.m3 import work_3_1, work_3_2\n\n", 0, None
    for _ in range(40):
        line = f"value_{rng.randrange(8)} = work_3_{rng.randrange(3)}(value_{rng.randrange(8)})\n"
        seen = set()
        for character in line:
            text += character
            seen.add(now := shown(store, text))
            changes, last = changes + (now != last), now
        assert len(seen) == 1
    assert last
    assert changes <= 4


def test_a_choice_that_has_clearly_become_worse_is_given_up():
    tax = CART.replace("ShoppingCart", "TaxReport").replace("discount", "levy_rate")
    store = store_of(
        ("shop/cart.py", CART), ("shop/tax.py", tax.replace("grand_total", "net_levy"))
    )
    first = shown(store)
    assert first[-1].uri.endswith("cart.py")
    later = USER + "add_discount(1)\n" * 2 + "\n" * 20
    later += "from shop.tax import TaxReport\n" + "report = TaxReport()\nreport.net_levy(1)\n" * 20
    assert 0 < KEEP < 1
    assert shown(store, later)[-1].uri.endswith("tax.py")


def test_what_is_shown_follows_an_edit_of_its_file():
    store = store_of(("shop/cart.py", CART))
    assert "percent_off" in shown(store)[0].text
    store.learn(python("shop/cart.py", CART.replace("percent_off", "share_off")))
    assert "percent_off" not in shown(store)[0].text
    assert "share_off" in shown(store)[0].text


def test_a_forgotten_file_is_shown_nowhere_at_once():
    store = store_of(("shop/cart.py", CART), ("shop/main.py", USER))
    assert shown(store)
    store.forget("file:///shop/shop/cart.py")
    assert shown(store) == ()
    assert store.num_characters == len(USER)
    store.forget("file:///never/seen.py")


def test_memory_is_bounded_by_files_and_by_characters():
    store = ContextStore(max_files=5, max_characters=2000)
    for n in range(50):
        store.learn(python(f"m{n}.py", f"def function_{n}():\n    pass\n" * (1 + n % 9)))
        assert store.num_characters <= 2000
    for n in range(50):
        store.forget(f"file:///shop/m{n}.py")
    assert store.num_characters == 0
    assert not any(index._having or index._defining for index in store._indexes.values())


def test_the_files_learned_last_are_the_ones_that_are_kept():
    store = ContextStore(max_files=2)
    store.learn(python("shop/cart.py", CART))
    store.learn(python("a.py", "x = 1\n"))
    store.learn(python("shop/cart.py", CART))  # unchanged, and the newest again
    store.learn(python("b.py", "x = 2\n"))
    assert shown(store)


LINES = st.sampled_from(
    ["def price_of(item):\n", "class ItemList:\n", "    def item_total(self, é):\n", "}\n", "{\n"]
)
ODD = st.sampled_from(
    ["\r\n", "\n", "\t\r", "e\u0301", "\ud800", "漢字 = '😀'\n", "'''", "x" * 500]
)
USES = st.sampled_from(["    return price_of(item)\n", "# item_total price_of ItemList\n"])
PIECES = st.lists(LINES | ODD | USES, max_size=30)


@given(
    texts=st.lists(PIECES, min_size=1, max_size=4),
    here=PIECES,
    budget=st.integers(0, 800),
    language=st.sampled_from(["python", "typescript", "kotlin", "plaintext"]),
)
def test_snippets_are_whole_lines_with_lf_within_the_budget(texts, here, budget, language):
    store = ContextStore()
    for number, pieces in enumerate(texts):
        store.learn(Snapshot(f"file:///m{number}.x", 1, language, "".join(pieces)))
    text = "".join(here) + "item = ItemList()\nitem.item_total(price_of(1))\n" * STEP
    at = Snapshot("file:///here.x", 1, language, text)
    found = store.snippets(at, len(text), budget)
    assert sum(len(render(snippet, language)) for snippet in found) <= budget
    assert len({snippet.uri for snippet in found}) == len(found)
    for snippet in found:
        assert "\r" not in snippet.text
        assert snippet.text.endswith("\n")
        assert snippet.uri != at.uri
    again = ContextStore()
    for number, pieces in enumerate(texts):
        again.learn(Snapshot(f"file:///m{number}.x", 1, language, "".join(pieces)))
    assert again.snippets(at, len(text), budget) == found


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends_make_no_difference(line_end):
    plain = shown(store_of(("shop/cart.py", CART)))
    other = shown(store_of(("shop/cart.py", CART.replace("\n", line_end))))
    assert other == plain
    if line_end == "\r\n":
        assert shown(store_of(("shop/cart.py", CART)), USER.replace("\n", line_end)) == plain


@pytest.mark.parametrize(
    ("uri", "language", "line"),
    [
        ("file:///home/me/shop/cart.py", "python", "# shop/cart.py\n"),
        ("file:///c%3A/my%20work/cart.ts", "typescriptreact", "// my work/cart.ts\n"),
        ("untitled:Untitled-1", "lua", "-- Untitled-1\n"),
        ("file:///cart.css", "css", "/* cart.css */\n"),
    ],
)
def test_a_snippet_is_headed_by_its_files_name_as_a_comment(uri, language, line):
    assert heading(uri, language) == line
    assert render(Snippet(uri, "a\nb\n"), language) == f"{line}a\nb\n\n"


@pytest.mark.parametrize(
    "before",
    [
        RequestOptions(use_context=False),
        RequestOptions(refuse=lambda s: refuse_document(s, Settings(exclude=("cart.py",)))),
    ],
    ids=["context-off", "excluded"],
)
def test_a_file_that_is_open_is_learned_once_the_settings_allow_it(before):
    store = ContextStore()

    async def main() -> None:
        session = Session(Scheduler(), DocumentStore(), Listener(learn=store.learn))
        session.options = before
        session.use(Engine(lambda request, cancel: pytest.fail("nothing is asked")))
        session.documents.open("file:///shop/cart.py", "python", 1, CART)
        session.opened("file:///shop/cart.py")
        await turns(session)
        assert not store._files
        session.options = RequestOptions()
        session.reconsider()
        await turns(session)

    asyncio.run(main())
    assert set(store._files) == {"file:///shop/cart.py"}


def test_documents_edited_without_a_request_are_shown_as_they_are_now():
    """To rename in all open files is one edit in each, and a request in one of them."""
    store, uri = ContextStore(), "file:///shop/{}.py"

    async def main() -> None:
        session = Session(Scheduler(), DocumentStore(), Listener(learn=store.learn))
        at = CompletionResult("text", len(USER), len(USER), None, CompletionStats())
        session.use(Engine(lambda request, cancel, watch: at))
        for name, text in (("cart", CART), ("tax", CART), ("main", USER)):
            session.documents.open(uri.format(name), "python", 1, text)
            session.opened(uri.format(name))
        await turns(session)
        for name in ("tax", "cart", "main"):
            new = session.documents.get(uri.format(name)).text.replace("owner", "holder")
            session.change(uri.format(name), 2, [Change(None, new)])
        line = USER.count("\n")
        asked = InlineCompletionParams(
            uri.format("main"), None, Position(line, 9), False, None, None, None
        )
        await session.complete(asked)
        await turns(session)

    asyncio.run(main())
    for name in ("cart", "tax"):
        assert "owner" not in store._files[uri.format(name)].text


@pytest.mark.parametrize("steps", [("close", "open"), ("open", "close")])
def test_a_document_that_got_another_name_is_known_by_that_alone(steps):
    """To editors, who save a new file or rename one, that is one closed and one opened."""
    store, old, new = ContextStore(), "untitled:Untitled-1", "file:///shop/cart.py"

    async def main() -> None:
        session = Session(
            Scheduler(), DocumentStore(), Listener(learn=store.learn, forget=store.forget)
        )
        session.use(Engine(lambda request, cancel: pytest.fail("nothing is asked")))
        for uri, text in (("file:///shop/a.py", USER), (old, CART)):
            session.documents.open(uri, "python", 1, text)
            session.opened(uri)
        await turns(session)
        session.close("file:///shop/a.py")
        for step in steps:
            if step == "close":
                session.close(old)
            else:
                session.documents.open(new, "python", 1, CART)
                session.opened(new)
            await turns(session)

    asyncio.run(main())
    assert set(store._files) == {"file:///shop/a.py", new}


async def turns(session: Session) -> None:
    """Until what was begun is done, also what is queued."""
    for _ in range(20):
        await asyncio.sleep(0.01)  # the disk thread and the loop take turns
    await session.scheduler.submit("other", lambda cancel: None)


def test_no_secret_and_no_excluded_file_ever_reaches_the_store():
    """Not when it is open before the model is, nor later, nor once a setting refuses it."""
    store = ContextStore()
    files = ["shop/cart.py", ".env.py", "private/cart.py", "shop/credentials.json", "shop/keys.py"]
    settings = Settings(exclude=("private/",))

    async def main() -> None:
        session = Session(
            Scheduler(), DocumentStore(), Listener(learn=store.learn, forget=store.forget)
        )
        session.options = RequestOptions(refuse=lambda s: refuse_document(s, settings))
        for number, name in enumerate(files):
            if number == 2:
                session.use(Engine(lambda request, cancel: pytest.fail("nothing is asked")))
            session.documents.open(f"file:///shop/{name}", "python", 1, CART)
            session.opened(f"file:///shop/{name}")
        await turns(session)
        assert set(store._files) == {f"file:///shop/{n}" for n in ("shop/cart.py", "shop/keys.py")}
        stricter = Settings(exclude=("private/", "keys.py"))
        session.options = RequestOptions(refuse=lambda s: refuse_document(s, stricter))
        session.reconsider()
        await turns(session)

    asyncio.run(main())
    assert set(store._files) == {"file:///shop/shop/cart.py"}
    assert [snippet.uri for snippet in shown(store)] == ["file:///shop/shop/cart.py"]
