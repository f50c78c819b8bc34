"""The parts of the benchmark: rows by group, peers, measuring, and the report.

- `bench`: what every group of rows is told.
- `caches`: rows of the Rust crate's caches beside other clients of Redis.
- `callgrind`: what a process costs in instructions, which do not depend on how busy the machine is.
- `calls`: rows of commands with short replies, one after another, from Python.
- `channels`: rows of messages between processes, beside Python's queues and Redis' lists.
- `classic`: the classic comparison: KEYS * on a near-empty database, so many queries by each
  client.
- `clients`: the clients of a server that the table `python` compares, each in a process of its own.
- `embedded`: rows of the Python client of a store, beside dict, redis-py and py-lmdb.
- `everyday`: rows of what Python programs do all day: large values, new keys, pipelines,
  collections, awaiting, starting.
- `feeds`: rows of feeds: their memory, ranges, insertions, filters, readers, a page of a forum.
- `feeds_classic`: the classic table of feeds: every client and scale, beside lists and a table.
- `fpm`: PHP-FPM for the rows of the PHP client, and requests to it by FastCGI.
- `growth`: rows and a picture of the slowest calls: while a store grows and ends, and in a crowd.
- `interface`: rows of the C interface, beside the engine's own calls from Rust.
- `lists`: rows of lists: their memory, ranges, both ends, the middle.
- `loads`: rows of the server under large values, and while its store grows.
- `machine`: what the figures were measured on.
- `many`: rows of one command with many items, at three sizes.
- `mariadb`: MariaDB as a peer, with the table that a forum keeps its threads in.
- `messages`: rows of messages: latency and rate to embedded subscribers, beside Redis.
- `native`: rows that native code measures: Rust, readers, memory, opening, instructions.
- `objects`: rows of objects that processes hand over, beside plasma, Redis, shared memory, LMDB.
- `peers`: servers beside us that are started and stopped, and Python environments of their own.
- `php`: rows of the PHP client, pure and with the extension, beside Predis, phpredis and APCu.
- `plot`: pictures: the classic comparison, and the slowest calls over time.
- `remote`: rows of the table `python`: our client of a server beside the others, and beside a raw
  socket.
- `report`: rows of a table, and how they are written down.
- `scripts`: rows of scripts: requests through the server, calls from Python.
- `served`: rows of the server, under redis-benchmark, beside redis-server.
- `services`: rows of a mosec service whose stages hand images on, beside mosec's own ways.
- `sets`: rows of sorted sets, hashes and sets through the server, beside redis-server.
- `streams`: rows of streams: memory, requests, calls from Python, entries to blocked readers.
- `tables`: which rows make up which table.
- `turns`: loops in processes of their own that take turns.
"""
