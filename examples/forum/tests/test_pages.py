"""Tests the forum in a browser: with a mouse, with the keyboard, on a phone."""

from boards import BOARDS, Forum, View
from browser import Browser

HELP = BOARDS[0]
PHONE = (390, 844)


def shown(browser: Browser) -> list[str]:
    """Return the thread titles on a page."""
    return browser.texts(".threads:last-of-type .title")


def test_paging_from_the_front_page_to_the_last_one(
    forum: Forum, site: str, browser: Browser
) -> None:
    browser.go(site)
    assert browser.texts(".card h2") == [board.title for board in BOARDS]
    browser.loading(lambda: browser.click(".card .title"))
    pages = forum.page(HELP, 1, View()).pages
    assert f"page 1 of {pages}" in browser.text(".count")
    browser.loading(lambda: browser.click("a[rel=next]"))
    assert browser.text(".pager [aria-current]") == "2"
    assert shown(browser) == [t.title for t in forum.page(HELP, 2, View()).threads]
    browser.js("document.getElementById('page').value = '99999'")
    browser.loading(lambda: browser.click(".jump button"))
    assert browser.text(".pager [aria-current]") == str(pages)
    assert browser.js("document.querySelector('a[rel=next]') === null")


def test_filters_persist_across_pages(forum: Forum, site: str, browser: Browser) -> None:
    browser.go(f"{site}/help/")
    solved = "document.querySelectorAll('.chips a')[3].setAttribute('id', 'solved')"
    browser.js(solved)
    browser.loading(lambda: browser.click("#solved"))
    assert browser.text(".chips [aria-current]") == "Solved"
    browser.loading(lambda: browser.click("a[rel=next]"))
    view = View.of(["solved"])
    assert shown(browser) == [t.title for t in forum.page(HELP, 2, view).threads]
    assert len(browser.texts(".threads .badge.solved")) == len(shown(browser))
    browser.js("document.getElementById('page').value = '3'")
    browser.loading(lambda: browser.click(".jump button"))
    assert browser.js("location.search") == "?only=solved&page=3"


def test_a_thread_is_hidden_and_shown_by_its_menu(
    forum: Forum, site: str, browser: Browser
) -> None:
    browser.go(f"{site}/help/?page=2")
    first, total = shown(browser)[0], forum.page(HELP, 1, View()).total
    browser.click(".threads summary")
    browser.loading(lambda: browser.click(".threads details[open] button[value=hidden]"))
    assert browser.js("location.search") == "?page=2"
    assert f"{total - 1:,} threads" in browser.text(".count")
    browser.go(f"{site}/help/?only=hidden")
    assert first in shown(browser)
    place = shown(browser).index(first)
    browser.js(f"document.querySelectorAll('.threads summary')[{place}].id = 'it'")
    browser.click("#it")
    browser.loading(lambda: browser.click("details[open] button[value=hidden]"))
    assert first not in shown(browser)
    browser.go(f"{site}/help/?page=2")
    assert shown(browser)[0] == first


def test_a_reply_can_be_written_by_keyboard_alone(
    forum: Forum, site: str, browser: Browser
) -> None:
    browser.go(f"{site}/help/?only=unsolved&page=3")
    titles = browser.texts(".threads .title")
    unlocked = [
        place
        for place, thread in enumerate(forum.page(HELP, 3, View.of(["unsolved"])).threads)
        if "locked" not in thread.marks
    ]
    for _ in range(unlocked[1] + 1):
        browser.key("j")
    assert browser.js("document.activeElement.innerText") == titles[unlocked[1]]
    browser.key("k")
    browser.key("j")
    browser.loading(lambda: browser.key("Enter"))
    assert browser.text("h1") == titles[unlocked[1]]
    browser.key("r")
    browser.type("Thank you, it works now.")
    # Move the focus back to the name.
    browser.js("document.getElementById('author').focus()")
    browser.type("Zoe")
    browser.loading(lambda: browser.key("Enter"))
    assert browser.js("location.pathname") == "/help/"
    assert shown(browser)[0] == titles[unlocked[1]]
    assert browser.js("document.querySelector('.threads:last-of-type li').matches(':target')")
    browser.loading(lambda: browser.key("n"))
    assert browser.text(".pager [aria-current]") == "2"
    browser.loading(lambda: browser.key("p"))
    browser.key("g")
    assert browser.js("document.activeElement.id") == "page"
    # A letter typed into a text field is not a shortcut.
    browser.key("n")
    assert browser.js("location.search") == ""


def test_the_tab_key_reaches_everything_in_order(site: str, browser: Browser) -> None:
    browser.go(f"{site}/help/")
    browser.key("Tab")
    assert browser.js("document.activeElement.className") == "skip"
    assert browser.js("document.activeElement.getBoundingClientRect().x") >= 0
    browser.key("Enter")
    browser.key("Tab")
    assert browser.js("document.activeElement.className") == "action"
    # The focused element is visibly marked.
    assert browser.js("getComputedStyle(document.activeElement).outlineWidth") == "3px"


def test_a_visitor_can_start_a_thread(forum: Forum, site: str, browser: Browser) -> None:
    browser.go(f"{site}/help/new")
    for field, text in (("title", "Moss in the <gutter>"), ("author", "Tove"), ("text", "How?")):
        browser.js(f"document.getElementById('{field}').focus()")
        browser.type(text)
    browser.loading(lambda: browser.click(".write .action"))
    assert browser.text("h1") == "Moss in the <gutter>"
    assert browser.texts(".post .text") == ["How?"]
    assert forum.page(HELP, 1, View()).threads[0].title == "Moss in the <gutter>"


def test_nothing_is_too_wide_or_too_small_for_a_phone(site: str, browser: Browser) -> None:
    browser.size(*PHONE, phone=True)
    number = BOARDS.index(HELP) + 1
    for address in ("/", "/help/", "/help/?page=60", f"/help/{number}", "/help/new", "/none/x"):
        browser.go(f"{site}{address}")
        assert browser.js("document.documentElement.scrollWidth") <= PHONE[0], address
        # Touch targets must be at least 44 pixels high. Links within text may be as high as the
        # text.
        small = browser.js(
            "[...document.querySelectorAll('nav a, button, summary, input, textarea')]"
            ".map((each) => [each.getBoundingClientRect(), each.outerHTML])"
            ".filter(([box]) => box.height > 0 && (box.height < 44 || box.width < 32))"
            ".map(([box, html]) => `${box.width}x${box.height} ${html}`)"
        )
        assert small == [], address
    browser.errors.clear()  # the error about the missing page is expected
