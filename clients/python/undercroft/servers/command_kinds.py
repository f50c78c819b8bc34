"""Which connection a command takes: by what it leaves on a connection, or needs of one.

- `ALONE`: a connection of its own from redis-py's pool, as it keeps the server from answering
  others, or changes the connection for the next caller.
- `STATE`: all shared connections, present and future, as it changes what later calls mean.
- `REPLICATED`: each connection that may have carried a write of the caller's, as it asks for the
  last write of its connection.
- `None`: the shared connection.
"""

from __future__ import annotations

from typing import Any

ALONE = "alone"
STATE = "state"
REPLICATED = "replicated"

# By name, and where a command has subcommands by both words.
KINDS = {
    **dict.fromkeys(
        (
            # They wait.
            *("BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP"),
            *("XREAD", "XREADGROUP", "SHUTDOWN", "FAILOVER"),
            # They make another kind of connection of it.
            *("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE"),
            *("SUNSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "REPLCONF", "QUIT", "RESET", "HELLO"),
            *("SELECT", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "ASKING"),
            # Redis sends these to itself, over connections of their own.
            *("RESTORE-ASKING", "PFDEBUG"),
            # The next EVAL of the connection begins a debugger's session.
            "SCRIPT DEBUG",
            # The next replies of the connection are left out, or others come unasked.
            *("CLIENT REPLY", "CLIENT TRACKING", "CLIENT CACHING"),
            # These tell of it.
            *("CLIENT GETREDIR", "CLIENT TRACKINGINFO"),
            # redis-py sends it with others that it finds necessary.
            "HIMPORT",
        ),
        ALONE,
    ),
    **dict.fromkeys(
        (
            *("AUTH", "READONLY", "READWRITE", "CLIENT SETNAME", "CLIENT SETINFO"),
            *("CLIENT NO-EVICT", "CLIENT NO-TOUCH", "CLIENT CAPA", "CLIENT IMPORT-SOURCE"),
        ),
        STATE,
    ),
    **dict.fromkeys(("WAIT", "WAITAOF"), REPLICATED),
}
# Commands whose second word decides.
_CONTAINERS = {name.partition(" ")[0] for name in KINDS if " " in name}
# Commands that take back what another one says.
_SAME_STATE = {"READWRITE": "READONLY"}

# Commands that change nothing, so that one which may have run can be sent again.
_READS = (
    "BITCOUNT BITFIELD_RO BITPOS DBSIZE DUMP ECHO EVAL_RO EVALSHA_RO EXISTS EXPIRETIME "
    "FCALL_RO GEODIST GEOHASH GEOPOS GEORADIUSBYMEMBER_RO GEORADIUS_RO GEOSEARCH GET GETBIT "
    "GETRANGE HEXISTS HGET HGETALL HKEYS HLEN HMGET HRANDFIELD HSCAN HSTRLEN HVALS INFO KEYS "
    "LASTSAVE LCS LINDEX LLEN LOLWUT LPOS LRANGE MGET PEXPIRETIME PFCOUNT PING PTTL RANDOMKEY "
    "SCAN SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS SMISMEMBER SORT_RO SRANDMEMBER "
    "SSCAN STRLEN SUBSTR SUNION TIME TOUCH TTL TYPE XLEN XPENDING XRANGE XREVRANGE ZCARD "
    "ZCOUNT ZDIFF ZINTER ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX "
    "ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE "
    "ZUNION "
)
_READS_OF_TWO_WORDS = (
    *("MEMORY USAGE", "OBJECT ENCODING", "OBJECT FREQ", "OBJECT IDLETIME", "OBJECT REFCOUNT"),
    *("XINFO CONSUMERS", "XINFO GROUPS", "XINFO STREAM"),
)
READS = frozenset((*_READS.split(), *_READS_OF_TWO_WORDS))
# Commands on a connection of their own that can be sent again over another one.
_REPEATABLE = READS | {
    *("XREAD", "WATCH", "UNWATCH", "AUTH", "HELLO", "SELECT", "READONLY", "READWRITE", "ASKING"),
    *("CLIENT SETNAME", "CLIENT SETINFO", "CLIENT TRACKING", "COMMAND", "CLUSTER SLOTS"),
    *("CLUSTER SHARDS", "CLUSTER NODES"),
}


def words_of(args: tuple[Any, ...]) -> list[str]:
    """Return the first words of a command in capitals."""
    words: list[str] = []
    for part in args[:2]:
        text = bytes(part).decode("latin-1") if isinstance(part, bytes | bytearray) else str(part)
        words += text.upper().split()
    return words


def kind_of(args: tuple[Any, ...]) -> str | None:
    """Return which connection a command takes."""
    words = words_of(args)
    return KINDS.get(" ".join(words[:2])) or KINDS.get(" ".join(words[:1]))


def is_told_by_name(name: str) -> bool:
    """Return whether a command's name says which connection it takes, without its arguments."""
    words = name.upper().split()
    return bool(words) and words[0] not in _CONTAINERS


def state_of(args: tuple[Any, ...]) -> Any:
    """Return what of a connection's state a command sets: a later one of the same replaces it."""
    words = words_of(args)
    if words[0] != "CLIENT":
        return _SAME_STATE.get(words[0], words[0])
    # CLIENT SETINFO has a name for each of its values.
    return tuple(words_of(args[-2:-1]) if words[1] == "SETINFO" else ()), words[1]


def changes_nothing(args: tuple[Any, ...]) -> bool:
    """Return whether a command only reads, so that it may run twice."""
    return _is_among(READS, args)


def is_repeatable(args: tuple[Any, ...]) -> bool:
    """Return whether a command that may have run can be sent again over another connection."""
    return _is_among(_REPEATABLE, args)


def _is_among(names: frozenset[str], args: tuple[Any, ...]) -> bool:
    if type(args[0]) is str and args[0] in names:
        return True
    words = words_of(args)
    return bool(words) and (words[0] in names or " ".join(words[:2]) in names)


def is_large(large: dict[Any, None], args: tuple[Any, ...]) -> bool:
    """Return whether a command is one of those whose replies were large."""
    try:
        return args[:2] in large
    except TypeError:
        return False


def smallest(replies: list[Any]) -> Any:
    """Return the smallest of the replies to WAIT, or in each place of those to WAITAOF."""
    if isinstance(replies[0], list):
        return [min(each) for each in zip(*replies, strict=True)]
    return min(replies)
