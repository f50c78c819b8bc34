"""The rows of all tables.

- `languages`: rows of Rust, of the C library and of PHP.
- `python`: rows of the Python clients.
- `servers`: rows of the server, and of the slowest calls of stores and servers.
- `tables`: the groups of rows in each table.
- `types`: rows of single types of values and of scripts, in every language.
"""
