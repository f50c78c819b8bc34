"""The runner of `make test` and `make soak`.

- `error_texts`: lists all texts that users read.
- `jobs`: the list of jobs.
- `lanes`: runs several jobs at a time.
- `oldest`: the job that tests the oldest redis-py.
- `readme`: the job that runs the Python samples of all pages, each twice.
- `summary`: the report at the end.
"""
