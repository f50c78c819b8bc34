"""The kind of connection that each command needs.

- `ALONE`: a separate connection from redis-py's pool, because the command blocks the connection or
  changes it for the next caller.
- `STATE`: all current and future shared connections, because the command changes the meaning of
  later calls.
- `REPLICATED`: each connection that may have carried one of the caller's writes, because the reply
  depends on the connection's last write.
- `None`: the shared connection.
"""

from __future__ import annotations

from typing import Any

ALONE = "alone"
STATE = "state"
REPLICATED = "replicated"

# The kinds by command name, or by command and subcommand.
KINDS = {
    **dict.fromkeys(
        (
            # These commands block.
            *("BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP"),
            *("XREAD", "XREADGROUP", "SHUTDOWN", "FAILOVER", "REPLICA.WAIT"),
            # These commands change the mode of the connection.
            *("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE"),
            *("SUNSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "REPLCONF", "QUIT", "RESET", "HELLO"),
            *("SELECT", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "ASKING"),
            # Redis servers send these commands to each other, over separate connections.
            *("RESTORE-ASKING", "PFDEBUG"),
            # After this command, the connection's next EVAL starts a debugging session.
            "SCRIPT DEBUG",
            # These commands suppress replies on the connection or add push messages.
            *("CLIENT REPLY", "CLIENT TRACKING", "CLIENT CACHING"),
            # These commands report the connection's tracking state.
            *("CLIENT GETREDIR", "CLIENT TRACKINGINFO"),
            # Before this command, redis-py may send other commands.
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
# Commands whose kind depends on the second word.
_CONTAINERS = {name.partition(" ")[0] for name in KINDS if " " in name}
# Commands that undo the effect of another command.
_SAME_STATE = {"READWRITE": "READONLY"}

# Commands that change nothing and can therefore be retried even if they may have run.
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
# Commands on separate connections that can be retried over another connection.
_REPEATABLE = READS | {
    *("XREAD", "WATCH", "UNWATCH", "AUTH", "HELLO", "SELECT", "READONLY", "READWRITE", "ASKING"),
    *("CLIENT SETNAME", "CLIENT SETINFO", "CLIENT TRACKING", "COMMAND", "CLUSTER SLOTS"),
    *("CLUSTER SHARDS", "CLUSTER NODES"),
}


def words_of(args: tuple[Any, ...]) -> list[str]:
    """Return the first words of a command in upper case."""
    words: list[str] = []
    for part in args[:2]:
        text = bytes(part).decode("latin-1") if isinstance(part, bytes | bytearray) else str(part)
        words += text.upper().split()
    return words


def kind_of(args: tuple[Any, ...]) -> str | None:
    """Return the kind of connection that a command needs."""
    words = words_of(args)
    return KINDS.get(" ".join(words[:2])) or KINDS.get(" ".join(words[:1]))


def is_told_by_name(name: str) -> bool:
    """Return whether a command's first word alone determines the kind of connection."""
    words = name.upper().split()
    return bool(words) and words[0] not in _CONTAINERS


def state_of(args: tuple[Any, ...]) -> Any:
    """Return the key of the state that a command sets; later commands with it replace the state."""
    words = words_of(args)
    if words[0] != "CLIENT":
        return _SAME_STATE.get(words[0], words[0])
    # The values that CLIENT SETINFO sets have separate names.
    return tuple(words_of(args[-2:-1]) if words[1] == "SETINFO" else ()), words[1]


def changes_nothing(args: tuple[Any, ...]) -> bool:
    """Return whether a command only reads data, so that it may run twice."""
    return _is_among(READS, args)


def is_repeatable(args: tuple[Any, ...]) -> bool:
    """Return whether a command that may have run can be retried over another connection."""
    return _is_among(_REPEATABLE, args)


def _is_among(names: frozenset[str], args: tuple[Any, ...]) -> bool:
    if type(args[0]) is str and args[0] in names:
        return True
    words = words_of(args)
    return bool(words) and (words[0] in names or " ".join(words[:2]) in names)


def is_large(large: dict[Any, None], args: tuple[Any, ...]) -> bool:
    """Return whether a command had a large reply earlier."""
    try:
        return args[:2] in large
    except TypeError:
        return False


def smallest(replies: list[Any]) -> Any:
    """Return the smallest of WAIT's replies, or the minimum of each number in WAITAOF's replies."""
    if isinstance(replies[0], list):
        return [min(each) for each in zip(*replies, strict=True)]
    return min(replies)
