"""The forum's pages, rendered on the server. They work without JavaScript."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import undercroft
from boards import BOARDS, MARKS, Board, Forum, LockedError, MissingError, Thread, View
from flask import Flask, abort, g, redirect, render_template, request, url_for
from generate import opening_of
from werkzeug.wrappers import Response

TITLE_MOST, NAME_MOST, TEXT_MOST = 120, 40, 10_000
# A moderator's actions, each with the button labels that apply and undo it.
ACTIONS = {"pinned": ("Pin", "Unpin"), "locked": ("Lock", "Unlock"), "solved": ("Solve", "Reopen")}


def create_app(store: str = "undercroft://forum") -> Flask:
    """Return the application for a store, which each process maps when it calls this function."""
    app = Flask(__name__)
    forum = Forum(undercroft.Redis.from_url(store, decode_responses=True))
    app.jinja_env.globals |= {"boards": BOARDS, "link": link, "ago": ago, "actions": ACTIONS}
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True

    @app.before_request
    def refuse_other_sites() -> None:
        """Reject forms sent from another site, which could act in a user's name."""
        origin = request.headers.get("Origin")
        if request.method == "POST" and origin and urlsplit(origin).netloc != request.host:
            abort(403, "This form belongs to another site.")

    @app.after_request
    def allow_nothing_from_elsewhere(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = "default-src 'self'"
        return response

    @app.errorhandler(MissingError)
    def missing(_: MissingError) -> Any:
        return render_template("error.html", code=404, text="There is no such thread."), 404

    @app.errorhandler(LockedError)
    def locked(_: LockedError) -> Any:
        return render_template("error.html", code=403, text="This thread is locked."), 403

    @app.errorhandler(400)
    @app.errorhandler(403)
    @app.errorhandler(404)
    def refused(error: Any) -> Any:
        return render_template("error.html", code=error.code, text=error.description), error.code

    @app.get("/")
    def front() -> str:
        since = time.perf_counter()
        found = forum.front()
        g.took = time.perf_counter() - since
        return render_template("front.html", found=found)

    @app.get("/<name>/")
    def board(name: str) -> Any:
        board, view = board_of(name), View.of(request.args.getlist("only"))
        wanted = whole_number(request.args, "page", 1)
        page = forum.page(board, wanted, view)
        if page.number != wanted:
            return redirect(link(board, view, page.number))
        g.took = page.took
        near = [n for n in range(page.number - 2, page.number + 3) if 1 <= n <= page.pages]
        return render_template("board.html", board=board, view=view, page=page, near=near)

    @app.get("/<name>/<int:number>")
    def thread(name: str, number: int) -> str:
        board = board_of(name)
        since = time.perf_counter()
        found, posts = forum.thread(board, number)
        g.took = time.perf_counter() - since
        opening = None if posts and found.replies + 1 == len(posts) else opening_of(number)
        return render_template(
            "thread.html", board=board, thread=found, posts=posts, opening=opening
        )

    @app.get("/<name>/new")
    def new(name: str) -> str:
        return render_template("new.html", board=board_of(name))

    @app.post("/<name>/new")
    def start(name: str) -> Response:
        board = board_of(name)
        title = text_of("title", TITLE_MOST)
        number = forum.start(board, title, text_of("author", NAME_MOST), text_of("text", TEXT_MOST))
        return redirect(url_for("thread", name=name, number=number), 303)

    @app.post("/<name>/<int:number>/reply")
    def reply(name: str, number: int) -> Response:
        board = board_of(name)
        forum.reply(board, number, text_of("author", NAME_MOST), text_of("text", TEXT_MOST))
        return redirect(f"{link(board)}#t{number}", 303)

    @app.post("/<name>/<int:number>/mark")
    def mark(name: str, number: int) -> Response:
        board, word, on = board_of(name), request.form.get("mark"), request.form.get("on") == "1"
        if word == "hidden":
            forum.hide(board, number, on)
        elif word in MARKS:
            forum.mark(board, number, word, on)
        else:
            abort(400, "There is no such mark.")
        return redirect(back_to(board), 303)

    return app


def board_of(name: str) -> Board:
    """Return the board with the given name, or end the request with an error."""
    board = next((board for board in BOARDS if board.name == name), None)
    return board or abort(404, "There is no such board.")


def whole_number(fields: Mapping[str, str], name: str, default: int) -> int:
    """Return the number in a URL's query, or the default if it is not a number."""
    text = fields.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def text_of(field: str, most: int) -> str:
    """Return a visitor's text in a form field, or end the request with an error."""
    text = request.form.get(field, "").strip()
    if not text or len(text) > most:
        abort(400, f"Expected {field} of 1 to {most:,} characters, got {len(text):,}.")
    return text


def back_to(board: Board) -> str:
    """Return the page of this site that a form was sent from."""
    came = urlsplit(request.headers.get("Referer", ""))
    if came.netloc != request.host:
        return link(board)
    return came.path + (f"?{came.query}" if came.query else "")


def link(board: Board, view: View | None = None, page: int = 1) -> str:
    """Return the URL of a board's page."""
    fields = [("only", word) for word in view.words()] if view else []
    if page > 1:
        fields.append(("page", str(page)))
    address = url_for("board", name=board.name)
    return f"{address}?{urlencode(fields)}" if fields else address


def ago(thread: Thread) -> str:
    """Return the time since a thread's last post, as text."""
    seconds = max(0, int(time.time() - thread.time))
    for size, unit in ((31_536_000, "year"), (86_400, "day"), (3_600, "hour"), (60, "minute")):
        count = seconds // size
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
