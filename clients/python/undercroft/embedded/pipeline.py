"""Queues of commands that run together, like redis-py's pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self

import redis
import redis.utils
from redis.commands import CoreCommands

from undercroft._native import Queue, errors, shape_replies, waits
from undercroft.embedded.missing import Modules
from undercroft.extensions.feed import PipelineFeeds
from undercroft.frameworks.green import is_patched, run
from undercroft.remote.replies import EMPTY_RESPONSE, NEVER_DECODE, shaped

if TYPE_CHECKING:
    from types import TracebackType

    from undercroft.embedded.client import EmbeddedRedis

Command = tuple[tuple[Any, ...], dict[str, Any]]

# Older versions of redis-py never shorten the command in an error message.
_shortened: Callable[[str], str] = getattr(redis.utils, "truncate_text", str)


def _text(part: Any) -> str:
    """Return an argument as error messages show it."""
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part).decode(errors="replace")
    return str(part)


def _annotated(error: Exception, number: int, command: Command) -> Exception:
    """Add the command and its position in the pipeline to an error's message."""
    shown = _shortened(" ".join(map(_text, command[0])))
    reason = error.args[0] if error.args else ""
    error.args = (
        f"Command # {number} ({shown}) of pipeline caused error: {reason}",
        *error.args[1:],
    )
    return error


class Pipeline(Queue, PipelineFeeds, Modules, CoreCommands):  # type: ignore[misc]
    """A queue of commands that :meth:`execute` runs together.

    With ``transaction`` the commands are applied atomically. After :meth:`watch`, commands run
    immediately until :meth:`multi` is called. If a watched key has changed, ``execute`` then raises
    ``redis.exceptions.WatchError``.
    """

    # redis-py's annotations for its command classes require these two attributes.
    _is_async_client: Literal[False] = False
    _event_dispatcher: Any

    def __init__(self, client: EmbeddedRedis, transaction: bool) -> None:
        """Create an empty pipeline with a separate connection state."""
        self._client = client
        self.response_callbacks = client.response_callbacks
        self.transaction = transaction

    def __enter__(self) -> Self:
        """Return the pipeline."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Discard the commands that have not been executed."""
        self.reset()

    def __bool__(self) -> bool:
        """Return True even for an empty pipeline."""
        return True

    def get_encoder(self) -> Any:
        """Return redis-py's encoder with the client's encoding."""
        return self._client.get_encoder()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command, or run it and return its reply while keys are watched."""
        if (self.watching or args[0] == "WATCH") and not self.explicit_transaction:
            return self.immediate_execute_command(*args, **options)
        return self.pipeline_execute_command(*args, **options)

    def pipeline_execute_command(self, *args: Any, **options: Any) -> Self:
        """Queue a command."""
        self._add(args, options, self.response_callbacks)
        return self

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command immediately."""
        taken: list[Any] = []
        try:
            (reply,) = self._run_these([(args, options)], taken)
            return self.answered(reply, args, options)
        except BaseException:
            self._give_back(taken)
            raise

    def answered(self, reply: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the result of a command that ran immediately, as redis-py converts its reply."""
        if isinstance(reply, Exception):
            if EMPTY_RESPONSE in options and isinstance(reply, redis.ResponseError):
                return options[EMPTY_RESPONSE]
            raise reply
        if args[0] == "WATCH":
            self.watching = True
        elif args[0] == "UNWATCH":
            self.watching = False
        return shaped(self.response_callbacks, args[0], reply, options)

    def watch(self, *names: Any) -> bool:  # type: ignore[override]
        """Watch keys: ``execute`` raises WatchError if any of them changes before it runs."""
        self.expect_no_multi()
        return bool(self.execute_command("WATCH", *names))

    def expect_no_multi(self) -> None:
        """Raise an error if a transaction has begun, because keys must be watched before that."""
        if self.explicit_transaction:
            raise redis.RedisError("Cannot issue a WATCH after a MULTI")

    def unwatch(self) -> bool:  # type: ignore[override]
        """Stop watching keys."""
        return (self.watching and bool(self.execute_command("UNWATCH"))) or True

    def multi(self) -> None:
        """Start a transaction while keys are watched: queue the commands that follow."""
        if self.explicit_transaction:
            raise redis.RedisError("Cannot issue nested calls to MULTI")
        if len(self):
            raise redis.RedisError("Commands without an initial WATCH have already been issued")
        self.explicit_transaction = True

    def discard(self) -> None:
        """Discard the queued commands and stop watching keys."""
        self.reset()

    def reset(self) -> None:  # type: ignore[override]
        """Discard the queued commands and stop watching keys."""
        self._clear()
        self.explicit_transaction = False
        if self.watching:
            self.watching = False
            self._run_these([(("UNWATCH",), {})])

    def close(self) -> None:
        """Discard the queued commands and stop watching keys."""
        self.reset()

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return their results.

        The first error is raised. With ``raise_on_error=False``, the list contains the errors
        instead.
        """
        return self.execute_taking([], raise_on_error)

    def execute_taking(self, taken: list[Any], raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return the results, restoring removed items after an error.

        On success ``taken`` contains the removed items, so that the caller can restore them if
        needed.
        """
        if not len(self) and not self.watching:
            return []
        try:
            try:
                if is_patched() and not self.whole and self._may_wait():
                    commands = self.command_stack
                    replies = [self._reply(*command, taken) for command in commands]
                    return self.results(replies, commands, taken, raise_on_error)
                results = self._results(self.transaction, taken)
                if results is not None:
                    return results
                ran = self._run(self.whole, taken)
                if ran is not None:
                    return self.ran(ran, taken, raise_on_error)
                commands = self.command_stack
                if self.whole:
                    answers = self._run_these(self.around(commands), taken)
                    replies = self.within(answers, commands)
                else:
                    replies = self._run_these(commands, taken)
                return self.results(replies, commands, taken, raise_on_error)
            finally:
                self.reset()
        except BaseException:
            self._give_back(taken)
            # With an empty list the caller does not restore the items again.
            taken.clear()
            raise

    def ran(self, ran: tuple[Any, int | None], taken: list[Any], raise_on_error: bool) -> list[Any]:
        """Return the results of a native run, or raise its error."""
        results, failed = ran
        if self.whole:
            self.watching = False
        if type(results) is list:
            if failed is None or not raise_on_error:
                return results
            error = results[failed]
        elif results is None:
            raise redis.WatchError("Watched variable changed.")
        else:
            error = results
        # As in redis-py, raise one command's error instead of returning the other results.
        taken.clear()
        raise error if failed is None else _annotated(error, failed + 1, self.command_stack[failed])

    @property
    def whole(self) -> bool:
        """Whether the commands are applied atomically."""
        return self.transaction or self.explicit_transaction

    def results(
        self,
        replies: list[Any],
        commands: list[Command],
        taken: list[Any],
        raise_on_error: bool = True,
    ) -> list[Any]:
        """Return replies as redis-py converts them, or raise the first error."""
        for place in errors(replies):
            reply, options = replies[place], commands[place][1]
            if EMPTY_RESPONSE in options and isinstance(reply, redis.ResponseError):
                replies[place] = options[EMPTY_RESPONSE]
            elif raise_on_error:
                taken.clear()
                raise _annotated(reply, place + 1, commands[place])
        callbacks = self.response_callbacks
        for place in shape_replies(callbacks, commands, replies):
            args, options = commands[place]
            replies[place] = shaped(callbacks, args[0], replies[place], options)
        return replies

    def around(self, commands: list[Command]) -> list[Command]:
        """Return the commands wrapped in MULTI and EXEC."""
        # Omit commands whose result is known, such as MGET without keys, because a server rejects
        # them.
        run = [command for command in commands if EMPTY_RESPONSE not in command[1]]
        return [(("MULTI",), {}), *run, (("EXEC",), {})]

    def within(self, answers: list[Any], commands: list[Command]) -> list[Any]:
        """Return the commands' replies, given the replies to MULTI, the commands and EXEC."""
        replies = answers.pop()
        self.watching = False
        unasked = [at for at, command in enumerate(commands) if EMPTY_RESPONSE in command[1]]
        # Skip the reply to MULTI.
        queued = answers[1:]
        for place in errors(queued):
            asked = [at for at in range(len(commands)) if at not in unasked]
            at = asked[place]
            raise _annotated(queued[place], at + 1, commands[at])
        if isinstance(replies, Exception):
            raise replies
        if replies is None:
            raise redis.WatchError("Watched variable changed.")
        results: list[Any] = replies
        for at in unasked:
            results.insert(at, commands[at][1][EMPTY_RESPONSE])
        return results

    def _may_wait(self) -> bool:
        """Return whether a queued command can wait for keys."""
        return any(waits(args[0]) for args, _ in self.command_stack)

    def _reply(self, args: tuple[Any, ...], options: dict[str, Any], taken: list[Any]) -> Any:
        """Run one command, waiting in the hub if it blocks, and return its reply or error."""
        if not waits(args[0]):
            return self._run_these([(args, options)], taken)[0]
        try:
            return run(self._client, args, NEVER_DECODE not in options, taken)
        except redis.ResponseError as error:
            return error

    def _run_these(self, commands: list[Command], taken: list[Any] | None = None) -> list[Any]:
        """Run commands in one call and return their replies."""
        return self.link._execute_many(commands, None, taken)
