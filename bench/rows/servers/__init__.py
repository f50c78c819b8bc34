"""Rows of the server, and of the slowest calls of stores and servers.

- `growth`: rows and a picture of the slowest calls over the life of a store, and of eight
  processes.
- `loads`: rows of the server under large values, and while its store grows.
- `messages`: rows of latency and rate of messages to embedded subscribers, compared with Redis.
- `served`: rows of the server under redis-benchmark, compared with redis-server.
"""
