"""Rows of the server, and of the slowest calls of stores and servers.

- `growth`: rows and a plot of the slowest calls over the life of a store, and of eight processes.
- `loads`: rows of the server with large values, and while its store grows.
- `messages`: rows of latency and rate of messages to embedded subscribers, compared with Redis.
- `network`: rows of GET over TLS, and of writers while clients of a server cache values.
- `served`: rows of the server measured by redis-benchmark, compared with redis-server.
"""
