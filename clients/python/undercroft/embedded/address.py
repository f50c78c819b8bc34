"""Parses the arguments of a store client, which are the store and its options."""

from __future__ import annotations

import os

# Defined here because importing typing takes longer than opening a store.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

DEFAULT_STORE = "undercroft://default"

_UNITS = {"": 1, "k": 1000, "kb": 1 << 10, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30}
_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _size(size: int | str | None) -> int | None:
    """Return a number of bytes, given the number or a string such as ``64gb``."""
    if not isinstance(size, str):
        return size
    text = size.strip().lower()
    digits = text.rstrip("bgkm")
    unit = _UNITS.get(text[len(digits) :].removeprefix("b"))
    if unit is None or not digits.isdecimal():
        raise ValueError(f"expected a size such as 1073741824, 512mb or 64gb, got {size!r}")
    return int(digits) * unit


def _truth(text: str) -> bool:
    """Return the boolean that a URL option's text represents."""
    value = _TRUTH.get(text.lower())
    if value is None:
        raise ValueError(f"expected true or false, got {text!r}")
    return value


SCHEME = "undercroft://"
# Options of the store itself, which every client of the store passes on.
TERMS = (
    "capacity",
    "maxmemory",
    "maxmemory_policy",
    "strict",
    "on_removed",
    "durability",
    "journal",
    "timeout",
)
# Options that a URL's query can set, each with the function that parses it.
OPTIONS: dict[str, Callable[[str], Any]] = {
    "db": int,
    "decode_responses": _truth,
    "encoding": str,
    "encoding_errors": str,
    "capacity": str,
    "maxmemory": str,
    "maxmemory_policy": str,
    "strict": _truth,
    "on_removed": str,
    "durability": str,
    "journal": str,
    "timeout": float,
    "client_name": str,
}


def told(
    store: str | os.PathLike[str], options: dict[str, Any], ignored: Callable[[], Collection[str]]
) -> dict[str, Any]:
    """Return the native client's arguments, given a client's arguments.

    Options in the URL take precedence. ``ignored`` returns the names of options that are accepted
    and ignored.
    """
    place = os.fspath(store)
    if isinstance(store, str) and "/" not in store:
        raise ValueError(
            f"expected undercroft://{store} for a store in shared memory, or ./{store} for a file "
            f"here, got {store!r}"
        )
    if isinstance(store, str) and store.startswith(SCHEME):
        place, in_url = _split(store, ignored)
        place, db = database_of(place)
        options = options | ({} if db is None else {"db": db}) | in_url
    sizes = {name: _size(options[name]) for name in ("capacity", "maxmemory")}
    return options | sizes | {"store": place}


def database_of(url: str) -> tuple[str, int | None]:
    """Return a store's URL without the database, and the database as in Redis' URLs.

    ``undercroft://name/1`` is database 1 of ``undercroft://name``. A URL with a path has no
    database.
    """
    name, slash, db = url.removeprefix(SCHEME).partition("/")
    if url.startswith(SCHEME) and name and slash and db.isdecimal() and db.isascii():
        return SCHEME + name, int(db)
    return url, None


def _split(url: str, ignored: Callable[[], Collection[str]]) -> tuple[str, dict[str, Any]]:
    """Return the store that a URL names and the options in its query."""
    if not any(mark in url for mark in "?#%[]"):
        name = url.removeprefix(SCHEME)
        return (name if name.startswith("/") else url), {}
    # Import here, because few URLs need it and importing takes longer than opening a store.
    from urllib.parse import parse_qsl, unquote, urlsplit

    parts = urlsplit(url)
    options = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        read = OPTIONS.get(name)
        if read is None:
            if name in ignored():
                continue
            known = ", ".join(OPTIONS)
            raise ValueError(f"expected one of the options {known}, got {name!r}")
        try:
            options[name] = read(text)
        except ValueError as error:
            raise ValueError(f"invalid value for {name!r} in {url!r}: {error}") from None
    if parts.path and not parts.netloc:
        # A path can contain characters with a special meaning in URLs, so return it without the
        # scheme.
        return unquote(parts.path), options
    return f"{SCHEME}{unquote(parts.netloc + parts.path)}", options
