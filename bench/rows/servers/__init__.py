"""Rows of the server as a whole.

- `growth`: rows and a picture of the slowest calls: while a store grows and ends, and in a crowd.
- `loads`: rows of the server under large values, and while its store grows.
- `messages`: rows of messages: latency and rate to embedded subscribers, beside Redis.
- `served`: rows of the server, under redis-benchmark, beside redis-server.
"""
