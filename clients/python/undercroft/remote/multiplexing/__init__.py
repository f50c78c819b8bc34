"""Shares one connection to a server among many tasks.

- `call`: the awaitable result of a sent command.
- `line`: the queue of one connection, which encodes commands and passes replies to calls in order.
- `link`: the connection, which writes the commands of all tasks once per turn of the loop.
- `rescue`: resends reads that wait for another call's large or slow reply, over another connection.
- `share`: the connections that the clients of one pool share on one event loop.
"""
