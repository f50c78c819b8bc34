"""The runner of `make test` and `make soak`.

- `jobs`: which jobs there are.
- `lanes`: running several at a time.
- `summary`: the report at the end.
"""
