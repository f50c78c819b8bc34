"""Tests tasks that wait for a store's locks: one receiver per loop, one FIFO queue per lock."""

import asyncio
import gc
import os
from typing import Any

import pytest
import undercroft
import undercroft.asyncio
from children import in_child
from conftest import Run

CHANNEL = b"undercroft:released:0:l"
# A polling interval in seconds, long enough that a task that is not woken never acquires the lock.
NEVER = 10**6


async def in_line(client: Any, number: int) -> list[asyncio.Task[bool]]:
    """Return tasks that wait for the lock, in this order."""
    locks = [client.lock("l", sleep=NEVER) for _ in range(number)]
    tasks = [asyncio.create_task(lock.acquire()) for lock in locks]
    await asyncio.sleep(0)
    return tasks


def test_more_tasks_can_wait_than_there_are_seats(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        order: list[int] = []

        async def work(number: int) -> None:
            async with client.lock("l", sleep=NEVER):
                order.append(number)

        async with client.lock("l"):
            tasks = [asyncio.create_task(work(number)) for number in range(600)]
            await asyncio.sleep(0)
            assert await client.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 1)]
        await asyncio.gather(*tasks)
        assert order == list(range(600))
        assert await client.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 0)]

    run(main())


def test_a_woken_task_that_is_cancelled_wakes_the_next_one(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        # Another task waits for another lock, whose name is not valid UTF-8.
        async with client.lock(b"\xff") as other:
            beside = asyncio.create_task(client.lock(b"\xff", sleep=NEVER).acquire())
            async with client.lock("l"):
                first, second, third = await in_line(client, 3)
            client.releases()._look()
            first.cancel()  # the task was already woken
            assert await second
            assert not third.done()
            assert await other.owned()
        assert await beside
        await client.delete("l")
        third.cancel()

    run(main())


def test_a_task_that_times_out_does_not_block_the_next_waiter(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        async with client.lock("l"):
            lock = client.lock("l", blocking_timeout=0.001, sleep=NEVER)
            short = asyncio.create_task(lock.acquire())
            (task,) = await in_line(client, 1)
            assert not await short
        assert await task

    run(main())


def test_tasks_of_a_closed_loop_leave_no_receiver(path: str) -> None:
    client = undercroft.asyncio.Redis(path)
    loop = asyncio.new_event_loop()
    with undercroft.Redis(path) as store, store.lock("l"):
        tasks = loop.run_until_complete(in_line(client, 2))
        assert store.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 1)]
        loop.close()
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        del tasks, task, loop
        gc.collect()
        assert store.pubsub_numsub("undercroft:released:0:l") == [(CHANNEL, 0)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork does not exist here")
def test_a_forked_child_does_not_disturb_its_parent_s_waiters(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        async with client.lock("l"):
            tasks = await in_line(client, 1)

            def throw_away() -> None:
                # Close the child's copies of the coroutines.
                for task in tasks:
                    task.get_coro().close()  # type: ignore[union-attr]

            assert in_child(throw_away) == 0
        assert await asyncio.gather(*tasks) == [True]

    run(main())


def server(socket: str, **options: Any) -> Any:
    return undercroft.asyncio.Redis(unix_socket_path=socket, **options)


async def subscribed(client: Any, number: int) -> None:
    """Wait until `number` connections are subscribed to the lock's releases."""
    while (await client.pubsub_numsub(CHANNEL))[0][1] != number:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("decode", [False, True])
def test_tasks_are_woken_by_a_release_on_a_server(
    server_socket: str, run: Run, decode: bool
) -> None:
    async def main() -> None:
        async with server(server_socket, decode_responses=decode) as client:
            await client.delete("l")
            held = client.lock("l")
            order: list[int] = []

            async def work(number: int) -> None:
                async with client.lock("l", sleep=NEVER):
                    order.append(number)

            for _ in range(3):
                assert await held.acquire()
                tasks = [asyncio.create_task(work(number)) for number in range(40)]
                # All tasks share one subscribed connection.
                await subscribed(client, 1)
                gone = asyncio.create_task(work(-1))
                await asyncio.sleep(0)
                gone.cancel()
                assert await held.owned()
                await held.release()
                await asyncio.gather(*tasks)
                assert sorted(order) == list(range(40))
                order.clear()
                await subscribed(client, 0)
            # A synchronous client's release wakes this client's task, and the task's release wakes
            # the synchronous client.
            with undercroft.Redis(unix_socket_path=server_socket) as other:
                theirs = other.lock("l", sleep=NEVER, thread_local=False)
                assert theirs.acquire()
                task = asyncio.create_task(work(0))
                await subscribed(client, 1)
                theirs.release()
                await task
                assert await held.acquire()
                waiting = asyncio.create_task(asyncio.to_thread(theirs.acquire))
                await subscribed(client, 1)
                await held.release()
                assert await waiting
                theirs.release()

    run(main())


def test_locks_on_a_server_expire_and_waits_time_out(server_socket: str, run: Run) -> None:
    async def main() -> None:
        async with server(server_socket) as client:
            await client.delete("l", b"\xff")
            assert await client.lock("l", timeout=0.05).acquire()
            assert not await client.lock("l", sleep=NEVER).acquire(blocking_timeout=0.001)
            assert not await client.lock("l").acquire(blocking=False)
            assert await client.lock("l", sleep=NEVER).acquire()
            # A task waits for another lock over the same connection and acquires it.
            other = client.lock(b"\xff")
            assert await other.acquire()
            tasks = await in_line(client, 2)
            beside = asyncio.create_task(client.lock(b"\xff", sleep=NEVER).acquire())
            await subscribed(client, 1)
            await other.release()
            assert await beside
            # A waiter's next poll finds that a lock was deleted without a notification.
            short = asyncio.create_task(client.lock("l", sleep=0.02).acquire())
            await asyncio.sleep(0)
            await client.delete("l")
            assert await short
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await subscribed(client, 0)

    run(main())


def test_waiters_reconnect_and_poll_when_subscribing_is_refused(
    server_socket: str, run: Run
) -> None:
    async def main() -> None:
        async with server(server_socket) as client:
            await client.delete("l")
            held = client.lock("l")
            assert await held.acquire()
            (task,) = await in_line(client, 1)
            await subscribed(client, 1)
            await client.execute_command("CLIENT", "KILL", "TYPE", "PUBSUB")
            await subscribed(client, 1)
            await held.release()
            assert await task
            await client.execute_command(
                "ACL", "SETUSER", "deaf", "on", "nopass", "~*", "+@all", "-subscribe", "-publish"
            )
            async with server(server_socket, username="deaf", password="") as deaf:
                task = asyncio.create_task(deaf.lock("l", sleep=0.02).acquire())
                await asyncio.sleep(0.05)
                assert not task.done()
                await client.delete("l")
                assert await task
            await client.execute_command("ACL", "DELUSER", "deaf")

    run(main())


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_cancelled_task_keeps_no_lock(
    path: str, server_socket: str, run: Run, is_remote: bool
) -> None:
    async def main() -> None:
        made = server(server_socket) if is_remote else undercroft.asyncio.Redis(path)
        async with made as client:
            await client.delete("l")
            for turns in range(60):
                task = asyncio.create_task(client.lock("l").acquire())
                for _ in range(turns // 4):
                    await asyncio.sleep(0)
                task.cancel()
                (taken,) = await asyncio.gather(task, return_exceptions=True)
                assert await client.delete("l") == (taken is True)

    run(main())
