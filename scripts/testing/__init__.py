"""The runner of `make test` and `make soak`.

- `jobs`: which jobs there are.
- `lanes`: running several at a time.
- `oldest`: the job of the oldest redis-py.
- `readme`: the job that runs the samples in Python of all pages, each twice.
- `summary`: the report at the end.
"""
