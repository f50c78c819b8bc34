"""A type-checked program: mypy --strict verifies the arguments and result of each call.

python typed.py undercroft://links
mypy --strict typed.py
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import assert_type

import undercroft
import undercroft.asyncio


@dataclass(frozen=True)
class Link:
    """A short name for a URL."""

    name: str
    address: str


class Links:
    """Links in a store or on a server."""

    def __init__(self, client: undercroft.Redis) -> None:
        """Store the links with the given client."""
        self._client = client

    @classmethod
    @contextmanager
    def at(cls, url: str) -> Iterator["Links"]:
        """Yield the links stored at a URL."""
        with undercroft.Redis.from_url(url) as client:
            assert_type(client, undercroft.Redis)
            yield cls(client)

    def add(self, link: Link) -> bool:
        """Add a link; return whether its name was unused."""
        added = self._client.set(f"link:{link.name}", link.address, nx=True, ex=3600)
        return bool(added)

    def follow(self, name: str) -> str | None:
        """Return a link's URL, and count the request."""
        address = self._client.get(f"link:{name}")
        assert_type(address, bytes | str | None)
        if address is None:
            return None
        assert_type(self._client.hincrby("asked", name, 1), int)
        return text(address)

    def names(self) -> list[str]:
        """Return the names of all links."""
        return sorted(text(key).removeprefix("link:") for key in self._client.scan_iter("link:*"))


def text(value: bytes | str) -> str:
    """Return a value as text, decoding it if the client has not."""
    return value if isinstance(value, str) else value.decode()


async def popular(client: undercroft.asyncio.Redis, count: int) -> list[str]:
    """Return the most requested names."""
    asked = await client.hgetall("asked")
    assert_type(asked, dict[bytes | str, bytes | str])
    return [text(name) for name in sorted(asked, key=lambda name: -int(asked[name]))][:count]


async def main(url: str) -> None:
    """Add some links, follow them, and print the most popular ones."""
    with Links.at(url) as links:
        both = [Link("docs", "https://example.org/docs"), Link("shop", "https://example.org/shop")]
        print([links.add(link) for link in (*both, both[0])])
        print([links.follow(name) for name in ("shop", "docs", "shop", "nothing")])
        print(links.names())
    async with undercroft.asyncio.Redis.from_url(url) as client:
        assert_type(client, undercroft.asyncio.Redis)
        print(await popular(client, 1))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
