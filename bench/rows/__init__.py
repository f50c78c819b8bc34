"""The rows of all tables.

- `languages`: rows of Rust, of the C library and of PHP.
- `python`: rows of the Python clients.
- `servers`: rows of the server as a whole.
- `tables`: which rows make up which table.
- `types`: rows of one type of value or of scripts, in every language.
"""
