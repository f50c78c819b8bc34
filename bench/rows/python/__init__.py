"""Rows of the Python clients.

- `calls`: rows of single commands with short replies.
- `channels`: rows of messages between processes, compared with Python's queues and Redis lists.
- `classic`: the classic comparison: increasing numbers of KEYS * on a near-empty database by each
  client.
- `embedded`: rows of the Python client of a store, compared with dict, redis-py and py-lmdb.
- `everyday`: rows of typical calls: large values, new keys, pipelines, collections, awaited calls,
  startup.
- `objects`: rows of objects passed between processes, compared with plasma, Redis, shared memory
  and LMDB.
- `remote`: rows of the table `python`: Undercroft's client of a server, other clients, and a raw
  socket.
- `services`: rows of a mosec service whose stages pass on images, compared with mosec's own
  methods.
"""
