"""The rows of all tables.

- `durable`: rows of stores with a journal, and of other engines that write to a disk.
- `languages`: rows of Rust, of the C library and of PHP.
- `links`: rows of files of Redis and Valkey.
- `python`: rows of the Python clients.
- `servers`: rows of the server, and of the slowest calls of stores and servers.
- `tables`: the groups of rows in each table.
- `types`: rows of single types of values and of scripts, in every language.
"""
