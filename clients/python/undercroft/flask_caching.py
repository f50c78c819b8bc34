"""A Flask-Caching cache in shared memory or on a server."""

from undercroft.frameworks.flask_caching import Cache

__all__ = ["Cache"]
