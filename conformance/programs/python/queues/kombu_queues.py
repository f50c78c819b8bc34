"""kombu: exchanges of every kind, priorities, acknowledgements, expiring queues."""

import socket
from contextlib import ExitStack, suppress
from typing import Any

from kombu import Connection, Consumer, Exchange, Producer, Queue
from place import URL, client

direct = Exchange("direct", "direct")
topic = Exchange("topic", "topic")
fanout = Exchange("fanout", "fanout")
one = Queue("one", direct, routing_key="one")
words = Queue("words", topic, routing_key="word.#")
greetings = Queue("greetings", topic, routing_key="*.hello")
urgent = Queue("urgent", direct, routing_key="urgent", max_priority=9)
ears = [Queue(f"ear{number}", fanout) for number in range(2)]
short = Queue("short", direct, routing_key="short", expires=10)


def drain(connection: Connection, queues: list[Queue], number: int) -> list[Any]:
    """Receive `number` messages from queues, acknowledge them, and return them."""
    found: list[Any] = []

    def take(body: Any, message: Any) -> None:
        found.append(body)
        message.ack()

    with Consumer(connection, queues, callbacks=[take]):
        while len(found) < number:
            connection.drain_events(timeout=20)
        with suppress(socket.timeout):
            connection.drain_events(timeout=0.2)
    assert len(found) == number
    return found


with Connection(URL) as connection:
    for queue in (one, words, greetings, urgent, *ears, short):
        queue(connection.default_channel).declare()
    producer = Producer(connection)
    for number in range(10):
        producer.publish({"n": number}, exchange=direct, routing_key="one")
    assert drain(connection, [one], 10) == [{"n": number} for number in range(10)]

    producer.publish("a", exchange=topic, routing_key="word.hello")
    producer.publish("b", exchange=topic, routing_key="word.a.b")
    assert sorted(drain(connection, [words], 2)) == ["a", "b"]
    assert drain(connection, [greetings], 1) == ["a"]

    for number, priority in enumerate((0, 9, 3)):
        producer.publish(number, exchange=direct, routing_key="urgent", priority=priority)
    found = drain(connection, [urgent], 3)
    assert sorted(found) == [0, 1, 2]
    assert found[0] != found[-1]

    # Messages that were received but not acknowledged return to the queue.
    producer.publish("again", exchange=direct, routing_key="one")
    with connection.SimpleQueue(one) as queue:
        message = queue.get(timeout=20)
        assert message.payload == "again"
        message.requeue()
        message = queue.get(timeout=20)
        assert message.payload == "again"
        message.ack()

    # Each listener uses a separate channel, as two programs do.
    heard: list[Any] = []
    with ExitStack() as listening:
        for ear in ears:
            consumer = Consumer(connection.channel(), [ear], no_ack=True)
            consumer.register_callback(lambda body, _: heard.append(body))
            listening.enter_context(consumer)
        with suppress(socket.timeout):
            connection.drain_events(timeout=0.2)
        producer.publish("to all", exchange=fanout)
        while len(heard) < 2:
            connection.drain_events(timeout=20)
    assert heard == ["to all", "to all"]

    with connection.SimpleBuffer("buffer") as queue:
        queue.put({"x": 1}, compression="zlib")
        assert queue.get(timeout=20).payload == {"x": 1}
    producer.publish("x", exchange=direct, routing_key="short")
    assert 0 < client().pttl("short") <= 10_000
assert client().hlen("unacked") == 0
