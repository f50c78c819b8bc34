"""The parts of the demo.

- `picture`: the picture and the table at the end of the demo.
- `processes`: processes of the demo: started, awaited, and stopped whatever happens.
- `screen`: output that reads well on a terminal and in a log.
- `stock_client`: a stock redis-py client of the demo: knows nothing of Undercroft, only a socket.
- `timing`: the time an operation takes: in this process, and over a socket.
- `worker`: a worker of the demo: looks names up and counts their words, until told to stop.
"""
