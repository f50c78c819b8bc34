"""Handlers of signals that use what the call below them is using."""

import signal
import threading

import pytest
import redis
import undercroft
from test_processes import Holder
from undercroft._native import Subscription


def test_a_handler_closes_the_receiver_that_it_interrupts(path: str) -> None:
    holder = Holder(path)
    told: list[str] = []
    done = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def send() -> None:
        while not done.wait(0.01):
            signal.pthread_kill(main, signal.SIGUSR1)

    def ring(*_: object) -> None:
        if told:
            return
        try:
            native.read(0)  # raises only where the call has begun to wait
        except redis.ConnectionError as error:
            told.append(str(error))
            native.close()
            done.set()
            holder.end()

    handler = signal.signal(signal.SIGUSR1, ring)
    sender = threading.Thread(target=send)
    try:
        holder.stop(undercroft.Redis(path, timeout=0.2))
        r = undercroft.Redis(path, timeout=3600)
        native = Subscription(r)
        # Names of all shards, whichever of them the process was stopped with.
        names = [str(number) for number in range(1000)]
        sender.start()
        with pytest.raises(redis.ConnectionError, match="closed by its client"):
            native.command(("SUBSCRIBE", *names))
        assert told == ["this is in use by the call that a signal has interrupted"]
        with pytest.raises(redis.ConnectionError, match="closed by its client"):
            native.read(0)
        assert r.pubsub_numsub(*names) == [(name.encode(), 0) for name in names]
    finally:
        done.set()
        if sender.is_alive():
            sender.join()
        signal.signal(signal.SIGUSR1, handler)
        holder.end()
