"""One connection to a server that many tasks share.

- `call`: the awaitable result of a command that was sent.
- `line`: the queue of one connection: encodes commands, and passes replies to calls in order.
- `link`: the connection, which writes the commands of all tasks once per turn of the loop.
- `rescue`: sends reads that wait for another call's large or slow reply over another connection.
- `share`: the connections that the clients of one pool share on one event loop.
"""
