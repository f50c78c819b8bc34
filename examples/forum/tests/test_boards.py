"""Tests the forum's operations on its boards, without a browser."""

import time

import pytest
import undercroft
from app import create_app
from boards import BOARDS, PER_PAGE, Forum, LockedError, MissingError, View, value_of
from generate import fill

HELP = BOARDS[0]


def numbers(forum: Forum, page: int = 1, *only: str) -> list[int]:
    found = forum.page(HELP, page, View.of(only))
    return [thread.number for thread in found.threads]


def test_the_same_seed_makes_the_same_forum(forum: Forum, url: str) -> None:
    with undercroft.Redis.from_url(url, db=1, decode_responses=True) as r:
        again = Forum(r)
        fill(again, 3_000)
        for number in (1, 60, 120):
            one, other = (each.page(HELP, number, View()) for each in (forum, again))
            assert [(t.title, t.author, t.marks) for t in one.threads] == [
                (t.title, t.author, t.marks) for t in other.threads
            ]


def test_every_thread_is_on_exactly_one_page(forum: Forum) -> None:
    for only in ((), ("solved",), ("locked", "unsolved"), ("hidden",)):
        first = forum.page(HELP, 1, View.of(only))
        shown = [t.number for t in first.pinned]
        for page in range(1, first.pages + 1):
            shown += [n for n in numbers(forum, page, *only) if n not in shown[: len(first.pinned)]]
        assert len(shown) == len(set(shown)) == first.total, only
    assert forum.page(HELP, 10**6, View()).number == forum.page(HELP, 1, View()).pages


def test_a_filter_shows_only_matching_threads(forum: Forum) -> None:
    page = forum.page(HELP, 2, View.of(["solved"]))
    assert len(page.threads) == PER_PAGE
    assert all("solved" in thread.marks for thread in page.threads)
    page = forum.page(HELP, 1, View.of(["locked", "unsolved"]))
    assert page.threads
    assert all(t.marks & {"locked", "solved"} == {"locked"} for t in page.threads)
    assert all(thread.hidden for thread in forum.page(HELP, 1, View.of(["hidden"])).threads)


def test_a_reply_moves_a_thread_to_the_top(forum: Forum) -> None:
    number = numbers(forum, 50)[7]
    forum.mark(HELP, number, "locked", False)
    before, _ = forum.thread(HELP, number)
    forum.reply(HELP, number, "Ada", "It was the washer.")
    thread, posts = forum.thread(HELP, number)
    assert numbers(forum)[0] == number
    assert thread.replies == before.replies + 1
    assert time.time() - thread.time < 60
    assert [(post.author, post.text) for post in posts] == [("Ada", "It was the washer.")]
    forum.mark(HELP, number, "locked", True)
    with pytest.raises(LockedError):
        forum.reply(HELP, number, "Ada", "Once more.")
    with pytest.raises(MissingError):
        forum.thread(HELP, 10**7)


def test_pages_close_up_when_a_thread_is_hidden(forum: Forum) -> None:
    third = numbers(forum, 3)
    forum.hide(HELP, third[0], True)
    assert numbers(forum, 3)[:-1] == third[1:]
    assert forum.page(HELP, 1, View.of(["hidden"])).total > 0
    forum.hide(HELP, third[0], False)
    assert numbers(forum, 3) == third


def test_a_new_thread_is_at_the_top(forum: Forum) -> None:
    number = forum.start(HELP, "A squeaking gate", "Bo", "Oil did not help.")
    assert numbers(forum)[0] == number
    assert forum.feed(HELP).position(value_of(number)) == 0


def test_invalid_addresses_and_forms_are_refused(forum: Forum, url: str) -> None:
    assert forum.is_there()
    visitor = create_app(url).test_client()
    for address, status in (
        ("/", 200),
        ("/help/", 200),
        ("/help/?page=0", 302),
        ("/help/?page=x&only=nonsense&only=solved&only=unsolved", 200),
        ("/help/?page=999999999", 302),
        ("/nothing/", 404),
        ("/help/99999999", 404),
        ("/help/new", 200),
    ):
        assert visitor.get(address).status_code == status, address
    number = numbers(forum)[0]
    forum.mark(HELP, number, "locked", False)
    form = {"author": "Bo", "text": "<script>alert(1)</script>"}
    for wrong in ({"author": "Bo"}, {**form, "text": "x" * 10_001}, {**form, "author": " "}):
        assert visitor.post(f"/help/{number}/reply", data=wrong).status_code == 400
    other = {"Origin": "http://elsewhere.example"}
    assert visitor.post(f"/help/{number}/reply", data=form, headers=other).status_code == 403
    assert forum.thread(HELP, number)[1] == []
    assert visitor.post(f"/help/{number}/reply", data=form).status_code == 303
    assert "&lt;script&gt;alert(1)" in visitor.get(f"/help/{number}").text
    assert visitor.post(f"/help/{number}/mark", data={"mark": "holy"}).status_code == 400
    marked = visitor.post(
        f"/help/{number}/mark",
        data={"mark": "solved", "on": "1"},
        headers={"Referer": "http://elsewhere.example/x"},
    )
    assert marked.location == "/help/"
