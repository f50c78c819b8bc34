"""Arrays, bytes and messages that processes exchange without copying.

- `async_embedded`: objects for asyncio, in a store in this process or on a server.
- `async_remote`: objects on a server, for asyncio.
- `embedded`: objects in a store in this process.
- `encoding`: the format of an object, and its conversion from and to Python's values.
- `kinds`: value types in objects other than bytes and NumPy arrays.
- `remote`: objects on a server: copies of values, sent and fetched in pipelines.
- `waits`: waits for objects that do not exist yet.
"""
