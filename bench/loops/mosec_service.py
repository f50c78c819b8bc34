"""A mosec service of two stages that passes an image from the first to the second.

``BENCH_WAY`` and ``BENCH_PLACE`` select how the image is passed. mosec runs this file again in the
process of each stage, which inherits both variables. The command line accepts mosec's own options.
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
    """The first stage: sends the same image for every request."""

    def deserialize(self, data):
        """Return the body of a request unchanged."""
        return data

    def forward(self, _):
        """Return the image, regardless of the request's content."""
        return IMAGE


class Look(Base):
    """The second stage: checks the image and reads one line of it."""

    def forward(self, data):
        """Return the sum of the image's first line."""
        if data.shape != IMAGE.shape:
            raise ValueError("the image is not what was sent")
        return float(data[0, 0].sum())

    def serialize(self, data):
        """Return the sum as text."""
        return b"%.3f" % data


if __name__ == "__main__":
    server = Server()
    server.append_worker(Load)
    server.append_worker(Look)
    server.run()
