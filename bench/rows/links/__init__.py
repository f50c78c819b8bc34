"""Rows of the exchange of data with Redis and Valkey.

- `files`: RDB files, imported and exported.
- `replication`: stores with replicas, and followers.
"""
