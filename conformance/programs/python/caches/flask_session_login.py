"""Flask-Session: the server remembers a login until the user logs out."""

import flask
import flask_session
from place import client

redis = client()
application = flask.Flask("application")
application.config.update(SESSION_TYPE="redis", SESSION_REDIS=redis, SESSION_PERMANENT=True)
flask_session.Session(application)


@application.post("/login/<name>")
def login(name: str) -> str:
    """Store a name in the session."""
    flask.session["name"] = name
    return "in"


@application.get("/")
def home() -> str:
    """Return the visitor's name and number of visits."""
    flask.session["visits"] = flask.session.get("visits", 0) + 1
    return f"{flask.session.get('name')} {flask.session['visits']}"


@application.post("/logout")
def logout() -> str:
    """Clear the session."""
    flask.session.clear()
    return "out"


ann, bob = application.test_client(), application.test_client()
ann.post("/login/ann")
bob.post("/login/bob")
assert [ann.get("/").text, ann.get("/").text, bob.get("/").text] == ["ann 1", "ann 2", "bob 1"]
keys = redis.keys("session:*")
assert len(keys) == 2
assert all(redis.ttl(key) > 0 for key in keys)
ann.post("/logout")
assert len(redis.keys("session:*")) == 1
assert [ann.get("/").text, bob.get("/").text] == ["None 1", "bob 2"]
