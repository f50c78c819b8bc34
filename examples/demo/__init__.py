"""The modules of the demo.

- `picture`: draws the picture and the table at the end of the demo.
- `processes`: starts the demo's processes, waits for them, and always stops them.
- `screen`: formats output for a terminal or a log.
- `stock_client`: an unmodified redis-py client that connects to a socket.
- `timing`: measures the duration of operations, in this process and over a socket.
- `worker`: a worker that looks names up and counts their words until the demo stops it.
"""
