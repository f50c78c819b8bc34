"""Which rows make up which table."""

from collections.abc import Callable

from core import embedded, lists, messages, native, served, sets
from core.bench import Bench
from core.report import Row

__all__ = ["TABLES", "Bench"]

Group = Callable[[Bench], list[Row]]

TABLES: dict[str, dict[str, Group]] = {
    "core": {
        "python": embedded.python_rows,
        "rust": native.hot_rows,
        "readers": native.reader_rows,
        "memory": native.memory_rows,
        "server": served.rows,
        "open": native.open_rows,
        "instructions": native.instruction_rows,
    },
    "types": {
        "lists": lists.rows,
        "python-lists": lists.python_rows,
        "served-lists": lists.served_rows,
        "middle": lists.middle_rows,
        "sets": sets.rows,
        "messages": messages.rows,
    },
}
