"""Channels, which are bounded queues of values between processes.

- `async_channel`: channels that tasks can wait on.
- `async_remote`: channels on a server for asyncio, whose steps run in threads.
- `channel`: channels in a store in this process or on a server.
- `remote`: the steps of a channel on a server.
"""
