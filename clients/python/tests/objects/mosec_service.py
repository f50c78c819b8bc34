"""A mosec service of two stages: one makes an array, the other sums it up."""

import numpy as np
from mosec import Server, Worker
from undercroft.mosec import UndercroftIPCMixin


class Make(UndercroftIPCMixin, Worker):
    """Make an array of one number."""

    def deserialize(self, data):
        """Return the number that a request names."""
        return int(data)

    def forward(self, data):
        """Return the array, and what it was made of."""
        return {"number": data, "array": np.full(100_000, data, "int64")}


class Sum(UndercroftIPCMixin, Worker):
    """Sum an array up."""

    def forward(self, data):
        """Return the sum of a view."""
        if data["array"].flags.writeable or (data["array"] != data["number"]).any():
            raise ValueError("the array is not the view that was put")
        return int(data["array"].sum())

    def serialize(self, data):
        """Return the text of a sum."""
        return b"%d" % data


if __name__ == "__main__":
    server = Server()
    server.append_worker(Make, num=2)
    server.append_worker(Sum, num=2)
    server.run()
