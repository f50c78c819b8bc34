"""The parts of the demo.

- `picture`: the picture and the table at the end of the demo.
- `processes`: starts the demo's processes, waits for them, and always stops them.
- `screen`: output that reads well on a terminal and in a log.
- `stock_client`: an unmodified redis-py client that connects to a socket.
- `timing`: the time of operations, in this process and over a socket.
- `worker`: a worker that looks names up and counts their words until it is told to stop.
"""
