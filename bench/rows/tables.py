"""The tables, each with its groups of rows and the functions that measure the groups."""

from collections.abc import Callable, Sequence

from core.bench import Bench
from core.report import Course, Grid, Row

from rows.durable import embedded as journaled
from rows.durable import served as durable
from rows.languages import caches, interface, native, php
from rows.links import files, replication
from rows.python import calls, channels, classic, embedded, everyday, objects, remote, services
from rows.servers import growth, loads, messages, network, served
from rows.types import feeds, feeds_classic, lists, many, scripts, sets, streams

__all__ = ["TABLES", "Bench"]

Group = Callable[[Bench], Sequence[Row | Grid | Course]]

TABLES: dict[str, dict[str, Group]] = {
    "core": {
        "python": embedded.python_rows,
        "rust": native.hot_rows,
        "readers": native.reader_rows,
        "memory": native.memory_rows,
        "server": served.rows,
        "open": native.open_rows,
        "copies": native.copy_rows,
        "instructions": native.instruction_rows,
        "c": interface.rows,
    },
    "types": {
        "lists": lists.rows,
        "python-lists": lists.python_rows,
        "served-lists": lists.served_rows,
        "middle": lists.middle_rows,
        "sets": sets.rows,
        "messages": messages.rows,
    },
    "python": {
        "sequential": remote.sequential,
        "instructions": remote.counted,
        "concurrent": remote.concurrent,
        "pipelines": remote.pipelines,
        "replies": remote.replies,
        "embedded": remote.embedded_gets,
        "classic": classic.rows,
    },
    "everyday": {
        "large": everyday.large_rows,
        "insertion": everyday.insertion_rows,
        "pipelines": everyday.pipeline_rows,
        "calls": calls.rows,
        "collections": everyday.collection_rows,
        "awaiting": everyday.awaiting_rows,
        "start": everyday.start_rows,
        "many": many.rows,
        "baselines": many.baseline_rows,
    },
    "server": {
        "short": loads.short_rows,
        "large": loads.large_rows,
        "slowest": loads.slowest_rows,
    },
    "php": {
        "remote": php.remote_rows,
        "embedded": php.embedded_rows,
        "fpm": php.fpm_rows,
        "network": php.network_rows,
    },
    "feeds": {
        "embedded": feeds.embedded_rows,
        "readers": feeds.reader_rows,
        "server": feeds.served_rows,
        "c": interface.rows,
        "classic": feeds_classic.rows,
    },
    "cache": {
        "large": caches.large_rows,
        "small": caches.small_rows,
        "messages": caches.message_rows,
        "waiting": caches.waiting_rows,
    },
    "objects": {
        "arrays": objects.rows,
        "services": services.rows,
        "channels": channels.rows,
    },
    "scripts": {
        "server": scripts.served_rows,
        "python": scripts.python_rows,
    },
    "streams": {
        "memory": streams.memory_rows,
        "server": streams.served_rows,
        "python": streams.python_rows,
        "readers": streams.reader_rows,
    },
    "durable": {
        "sets": journaled.set_rows,
        "always": journaled.always_rows,
        "readers": journaled.reader_rows,
        "bulk": journaled.bulk_rows,
        "served": durable.always_rows,
        "checkpoints": durable.checkpoint_rows,
        "recovery": durable.recovery_rows,
    },
    "links": {
        "import": files.import_rows,
        "export": files.export_rows,
        "source": replication.source_rows,
        "following": replication.following_rows,
    },
    "network": {
        "tls": network.tls_rows,
        "tracking": network.tracking_rows,
    },
    "growth": {
        "life": growth.rows,
        "crowd": growth.crowd_rows,
    },
}
