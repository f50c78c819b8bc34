"""One connection to a server that many tasks use at once.

- `call`: a command that was sent, as what redis-py's methods give: something to await.
- `line`: commands and calls of one connection: packed and put in line, and answered in order.
- `link`: the connection itself: the commands of all tasks are one write per turn of the loop.
- `rescue`: reads that wait for a large or slow reply, sent again over another connection.
- `share`: the connection that the clients of one pool share on one event loop.
"""
