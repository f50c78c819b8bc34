"""FastStream: handlers of streams with a group, of lists, channels and patterns, and replies."""

import asyncio
import logging

# FastStream imports redis-py's URL parser, so the scheme must be registered first.
from place import URL, client  # isort: split

from faststream.redis import ListSub, PubSub, RedisBroker, StreamSub

broker = RedisBroker(URL, logger=None, log_level=logging.CRITICAL)
got: dict[str, list[object]] = {name: [] for name in ("stream", "batch", "list", "news", "out")}


@broker.subscriber(stream=StreamSub("stream", group="group", consumer="one"))
@broker.publisher("out")
async def from_stream(number: int) -> int:
    """Process stream entries as a consumer of a group, and publish the results."""
    got["stream"].append(number)
    return number * 2


@broker.subscriber(list=ListSub("batch", batch=True, max_records=5))
async def in_batches(numbers: list[int]) -> None:
    """Process list items in batches."""
    got["batch"].extend(numbers)


@broker.subscriber(list="list")
async def from_list(text: str) -> str:
    """Process list items one by one, and reply."""
    got["list"].append(text)
    return text.upper()


@broker.subscriber(channel=PubSub("news.*", pattern=True))
async def news(text: str) -> None:
    """Receive messages on any channel that matches a pattern."""
    got["news"].append(text)


@broker.subscriber("out")
async def out(number: int) -> None:
    """Receive the messages that the stream handler publishes."""
    got["out"].append(number)


async def main() -> None:
    """Send messages to each handler."""
    async with broker:
        await broker.start()
        for number in range(10):
            await broker.publish(number, stream="stream")
        await broker.publish_batch(*range(12), list="batch")
        answer = await broker.request("hello", list="list", timeout=20)
        assert await answer.decode() == "HELLO"
        await broker.publish("rain", channel="news.weather")
        wanted = {"stream": 10, "batch": 12, "list": 1, "news": 1, "out": 10}
        async with asyncio.timeout(20):
            while {name: len(values) for name, values in got.items()} != wanted:
                await asyncio.sleep(0.01)
    assert got["stream"] == list(range(10))
    assert got["batch"] == list(range(12))
    assert sorted(got["out"]) == list(range(0, 20, 2))
    redis = client()
    assert redis.xlen("stream") == 10
    assert redis.xpending("stream", "group")["pending"] == 0


asyncio.run(main())
