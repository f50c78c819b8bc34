"""The runner of `make test` and `make soak`.

- `error_texts`: lists all texts that users read.
- `jobs`: defines the list of jobs.
- `lanes`: runs several jobs at a time.
- `oldest`: the job that tests the client with the oldest redis-py.
- `readme`: the job that runs the Python samples of all pages twice.
- `summary`: prints the report at the end.
"""
