"""A mosec service of two stages, the first of which hands an image to the second by one way.

``BENCH_WAY`` and ``BENCH_PLACE`` say which: the processes of the stages, which run this anew, have
them as well. The arguments are mosec's own.
"""

import importlib
import os

import numpy as np
from mosec import Server, Worker

WAY, PLACE = os.environ["BENCH_WAY"], os.environ["BENCH_PLACE"]
IMAGE = np.random.default_rng(7).random((3, 640, 480), "float32")

Base = Worker
if WAY == "undercroft":
    Base = importlib.import_module("undercroft.mosec").UndercroftIPCMixin
    Base.set_undercroft(PLACE)
elif WAY == "plasma":
    Base = importlib.import_module("mosec.mixin").PlasmaShmIPCMixin
    Base.set_plasma_path(PLACE)
elif WAY == "redis":
    Base = importlib.import_module("mosec.mixin").RedisShmIPCMixin
    Base.set_redis_url(PLACE)


class Load(Base):
    """Answer every request with an image."""

    def deserialize(self, data):
        """Return the bytes of a request."""
        return data

    def forward(self, _):
        """Return the image."""
        return IMAGE


class Look(Base):
    """Look at a part of an image."""

    def forward(self, data):
        """Return the sum of a line."""
        if data.shape != IMAGE.shape:
            raise ValueError("the image is not what was sent")
        return float(data[0, 0].sum())

    def serialize(self, data):
        """Return text."""
        return b"%.3f" % data


if __name__ == "__main__":
    server = Server()
    server.append_worker(Load)
    server.append_worker(Look)
    server.run()
