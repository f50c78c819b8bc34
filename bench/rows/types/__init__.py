"""Rows of single types of values and of scripts, in every language.

- `feeds`: rows of feeds: memory, ranges, insertions, filters, readers, a forum's page.
- `feeds_classic`: the classic table of feeds, at every scale, compared with lists and a MariaDB
  table.
- `lists`: rows of lists: memory, ranges, both ends, the middle.
- `many`: rows of one command with many items, at three sizes.
- `scripts`: rows of scripts: requests through the server, calls from Python.
- `sets`: rows of sorted sets, hashes and sets through the server, compared with redis-server.
- `streams`: rows of streams: memory, requests, calls from Python, entries to blocked readers.
"""
