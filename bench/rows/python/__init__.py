"""Rows of the Python clients.

- `calls`: rows of commands with short replies, one after another, from Python.
- `channels`: rows of messages between processes, beside Python's queues and Redis' lists.
- `classic`: the classic comparison: KEYS * on a near-empty database, so many queries by each
  client.
- `embedded`: rows of the Python client of a store, beside dict, redis-py and py-lmdb.
- `everyday`: rows of what Python programs do all day: large values, new keys, pipelines,
  collections, awaiting, starting.
- `objects`: rows of objects that processes hand over, beside plasma, Redis, shared memory, LMDB.
- `remote`: rows of the table `python`: our client of a server beside the others, and beside a raw
  socket.
- `services`: rows of a mosec service whose stages hand images on, beside mosec's own ways.
"""
