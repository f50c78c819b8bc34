"""Rows of stores with a journal, and of other engines that write to a disk.

- `embedded`: embedded writes, compared with LMDB, SQLite and a store without a journal.
- `served`: servers, checkpoints and recovery, compared with Redis and Valkey.
"""
