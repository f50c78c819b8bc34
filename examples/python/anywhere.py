"""One program for a store in shared memory and for any server that speaks the Redis protocol.

The URL alone decides where the data is:

    python anywhere.py undercroft://board
    python anywhere.py redis://localhost:6379/0
    python anywhere.py unix:///run/redis.sock
"""

import sys
from typing import Any

import undercroft


def main(url: str) -> None:
    """Update a score board, and print it."""
    with undercroft.Redis.from_url(url, decode_responses=True) as r:
        r.delete("scores", "visits")
        with r.pipeline() as pipe:
            pipe.zadd("scores", {"ada": 3, "grace": 5})
            pipe.zincrby("scores", 4, "ada")
            pipe.hset("visits", mapping={"ada": 1, "grace": 2})
            pipe.expire("visits", 60)
            print(pipe.execute()[1:3])
        print(r.zrange("scores", 0, -1, desc=True))

        with r.pubsub(ignore_subscribe_messages=True) as messages:
            messages.subscribe("news")
            messages.get_message(timeout=5)
            r.publish("news", f"{r.hlen('visits')} visitors")
            message = messages.get_message(timeout=5)
            print(message["data"] if message else "nothing came")

        def visit(pipe: Any) -> None:
            before = pipe.hget("visits", "ada")
            pipe.multi()
            pipe.hset("visits", "ada", int(before) + 1)

        r.transaction(visit, "visits")
        print(r.hgetall("visits"))


if __name__ == "__main__":
    main(sys.argv[1])
