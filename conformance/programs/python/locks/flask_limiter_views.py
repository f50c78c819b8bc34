"""Flask-Limiter: view limits over a moving window, shared by two applications."""

import flask
import flask.testing
from flask_limiter import Limiter
from place import client


def site() -> flask.testing.FlaskClient:
    """Return a client of a new application, which stands for one process of a site."""
    application = flask.Flask("application")
    limiter = Limiter(
        lambda: flask.request.headers.get("User", "nobody"),
        app=application,
        default_limits=["100 per hour"],
        storage_uri="redis://",
        storage_options={"connection_pool": client().connection_pool},
        strategy="moving-window",
        headers_enabled=True,
    )

    @application.get("/dear")
    @limiter.limit("3 per minute")
    def dear() -> str:
        return "dear"

    @application.get("/cheap")
    def cheap() -> str:
        return "cheap"

    return application.test_client()


def codes(path: str, user: str, times: int) -> list[int]:
    """Send requests to both applications in turn, and return the statuses."""
    return [
        sites[number % 2].get(path, headers={"User": user}).status_code for number in range(times)
    ]


sites = [site(), site()]
assert codes("/dear", "ann", 5) == [200, 200, 200, 429, 429]
assert codes("/dear", "bob", 2) == [200, 200]
assert codes("/cheap", "ann", 5) == [200] * 5
answer = sites[0].get("/cheap", headers={"User": "ann"})
assert answer.headers["X-RateLimit-Limit"] == "100"
assert int(answer.headers["X-RateLimit-Remaining"]) == 94
# The counters are in the store rather than in the applications.
assert [key for key in client().scan_iter("LIMITS*") if b"ann" in key]
