"""Rows of one type of value or of scripts, in every language.

- `feeds`: rows of feeds: their memory, ranges, insertions, filters, readers, a page of a forum.
- `feeds_classic`: the classic table of feeds: every client and scale, beside lists and a table.
- `lists`: rows of lists: their memory, ranges, both ends, the middle.
- `many`: rows of one command with many items, at three sizes.
- `scripts`: rows of scripts: requests through the server, calls from Python.
- `sets`: rows of sorted sets, hashes and sets through the server, beside redis-server.
- `streams`: rows of streams: memory, requests, calls from Python, entries to blocked readers.
"""
