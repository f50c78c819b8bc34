"""A mosec service with two stages: the first creates an array, the second sums it."""

import numpy as np
from mosec import Server, Worker
from undercroft.mosec import UndercroftIPCMixin


class Make(UndercroftIPCMixin, Worker):
    """A worker that creates an array filled with one number."""

    def deserialize(self, data):
        """Return the number in a request."""
        return int(data)

    def forward(self, data):
        """Return an array filled with the number, and the number."""
        return {"number": data, "array": np.full(100_000, data, "int64")}


class Sum(UndercroftIPCMixin, Worker):
    """A worker that sums an array."""

    def forward(self, data):
        """Return the sum of a received view."""
        if data["array"].flags.writeable or (data["array"] != data["number"]).any():
            raise ValueError("the array is not the view that was put")
        return int(data["array"].sum())

    def serialize(self, data):
        """Return a sum as text."""
        return b"%d" % data


if __name__ == "__main__":
    server = Server()
    server.append_worker(Make, num=2)
    server.append_worker(Sum, num=2)
    server.run()
