"""Integrations with frameworks, which programs import from `undercroft` (`undercroft.celery`).

- `celery`: a Celery result backend that stores results in shared memory.
- `django`: a Django cache in shared memory or on a server.
- `flask_caching`: a Flask-Caching cache in shared memory or on a server.
- `green`: waits that allow other greenlets to run in a process patched by gevent or eventlet.
- `joblib`: a joblib backend whose workers receive and return arrays through a store.
- `mosec`: passes results between the stages of a mosec service through a store.
"""
