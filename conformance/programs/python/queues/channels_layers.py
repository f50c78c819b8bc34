"""channels_redis: both layers send to channels and groups across a site's processes."""

import asyncio
from typing import Any

from channels.exceptions import ChannelFull
from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer
from place import URL, asynchronous, refused


async def talk(here: Any, there: Any) -> None:
    """Send from one layer to the other, as two processes do."""
    ann, bob, eve = [await there.new_channel() for _ in range(3)]
    for channel in (ann, bob):
        await there.group_add("room", channel)
    await here.send(eve, {"type": "private", "text": "psst"})
    for number in range(10):
        await here.group_send("room", {"type": "said", "number": number})
    for channel in (ann, bob):
        for number in range(10):
            message = await asyncio.wait_for(there.receive(channel), 20)
            assert message == {"type": "said", "number": number}
    assert (await asyncio.wait_for(there.receive(eve), 20))["text"] == "psst"

    # The waiting channel receives the message. The channel that left the group does not.
    waiting = asyncio.create_task(there.receive(ann))
    await there.group_discard("room", bob)
    await here.group_send("room", {"type": "said", "number": 10})
    assert (await asyncio.wait_for(waiting, 20))["number"] == 10
    with refused(TimeoutError):
        await asyncio.wait_for(there.receive(bob), 0.3)


async def core() -> None:
    """Test the layer that stores messages in lists."""
    layers = [RedisChannelLayer(hosts=[URL], capacity=20, expiry=30) for _ in range(2)]
    await talk(*layers)
    for number in range(20):
        await layers[0].send("tasks", {"type": "task", "number": number})
    with refused(ChannelFull):
        await layers[0].send("tasks", {"type": "task", "number": 20})
    for number in range(20):
        assert (await layers[1].receive("tasks"))["number"] == number
    short = RedisChannelLayer(hosts=[URL], expiry=1, prefix="short")
    await short.send("tasks", {"type": "task"})
    redis = asynchronous()
    while await redis.keys("short*"):
        await asyncio.sleep(0.05)
    await redis.aclose()
    with refused(TimeoutError):
        await asyncio.wait_for(short.receive("tasks"), 0.3)
    for layer in (*layers, short):
        await layer.flush()
        await layer.close_pools()


async def published() -> None:
    """Test the layer that publishes messages."""
    layers = [RedisPubSubChannelLayer(hosts=[URL]) for _ in range(2)]
    await talk(*layers)
    for layer in layers:
        await layer.flush()


asyncio.run(core())
asyncio.run(published())
