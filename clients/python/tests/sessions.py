"""Runs the calls in ``sessions.txt`` on a client and returns their results."""

import datetime
import enum
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMESPACE: dict[str, Any] = {
    "bytearray": bytearray,
    "memoryview": memoryview,
    "timedelta": datetime.timedelta,
    "later": datetime.datetime.now() + datetime.timedelta(hours=1),
    "Level": enum.IntEnum("Level", "LOW HIGH"),
    "Name": enum.StrEnum("Name", "FIRST"),
    "Text": type("Text", (str,), {}),
    "object": object,
    "sorted": sorted,
    "type": type,
    "range": range,
    "abs": abs,
    "len": len,
    "list": list,
    "isinstance": isinstance,
    "dict": dict,
}

SESSIONS = [
    lines
    for paragraph in (Path(__file__).parent / "sessions.txt").read_text().split("\n\n")
    if (lines := [line for line in paragraph.splitlines() if not line.startswith("#")])
]

# Calls whose results differ between two runs even on the same server.
VOLATILE = re.compile(r"client_id|client_list|client_info|info\(|time\(\)|randomkey|memory_stats")


def evaluate(expression: str, client: Any) -> tuple[str, Any]:
    """Return the outcome of an expression: a value with its type, or an exception."""
    run: Callable[..., Any] = eval
    if expression.startswith("r[") and "=" in expression:
        run = exec
    try:
        value = run(expression, {**NAMESPACE, "r": client})
    except Exception as error:
        return "raised", (type(error), re.sub(r"\bClient\.", "BasicKeyCommands.", str(error)))
    return type(value).__name__, value
