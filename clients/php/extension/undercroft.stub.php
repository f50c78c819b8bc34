<?php

// What the extension declares, for people and for their editors. The extension's tests compare it with the extension.

namespace Undercroft {
    /** What every exception of Undercroft extends. */
    class UndercroftException extends \RuntimeException
    {
    }

    /** An error that the server or the store answered. */
    class ServerException extends UndercroftException
    {
        /** The first word of the error: ERR, WRONGTYPE, OOM, ... */
        public function kind(): string
        {
        }
    }

    /** A store could not be opened, is busy, removed or closed, or a wait was interrupted. */
    class StoreException extends UndercroftException
    {
    }

    /** A connection could not be made, or was lost. */
    class ConnectionException extends UndercroftException
    {
    }

    /** A server did not answer in time. */
    class TimeoutException extends ConnectionException
    {
    }

    /** A server sent what is not its protocol. */
    class ProtocolException extends ConnectionException
    {
    }
}

namespace Undercroft\Native {
    /**
     * A store in shared memory. The process keeps it open behind the request, for the next one.
     *
     * Every method throws ServerException where the answer is an error of a command, and StoreException where the store
     * cannot be used. Words of commands are strings, integers, floats, and objects that can be strings.
     */
    final class Store
    {
        /**
         * Opens a store, which is created where there is none: `undercroft://name`, `undercroft:///path`, or a path.
         *
         * @param array{db?: int, maxmemory?: int, capacity?: int, policy?: string, strict?: bool, timeout?: int|float} $options the
         *        database (0 to 15); for a store's creation the limit on its data in bytes (-1 is none), its address
         *        space in bytes and which keys make room; for how many seconds a call waits for another process' lock
         */
        public function __construct(string $url, array $options = [])
        {
        }

        /** The string of a key; null where there is no such key. O(length). */
        public function get(string $key): ?string
        {
        }

        /** Sets a key, to expire in so many milliseconds where that is given. Always true. O(length). */
        public function set(string $key, string $value, ?int $ttl_ms = null): bool
        {
        }

        /** Adds to the integer that a key holds, and returns the sum. */
        public function incr(string $key, int $by = 1): int
        {
        }

        /** The strings of keys, all at one moment; null for each that holds none. */
        public function mget(array $keys): array
        {
        }

        /** Sets all keys of an array to its values, all at one moment. */
        public function mset(array $pairs): bool
        {
        }

        /** Removes keys; returns how many were there. */
        public function del(string $key, string ...$keys): int
        {
        }

        /** How many of these keys are there. */
        public function exists(string $key, string ...$keys): int
        {
        }

        /** Lets a key expire in so many milliseconds; false where there is no such key. */
        public function expire(string $key, int $ttl_ms): bool
        {
        }

        /** The milliseconds until a key expires, -1 where it does not; null where there is no such key. */
        public function ttl(string $key): ?int
        {
        }

        /**
         * Runs any command: `['LPUSH', 'queue', 'job']`. The object is a session, as a connection is to a server:
         * SELECT, MULTI and WATCH are remembered. Maps are arrays with names, scores are floats.
         *
         * @param list<string|int|float|\Stringable> $words
         */
        public function execute(array $words): mixed
        {
        }

        /** Runs commands one after the other. Errors stand among the replies, as ServerException objects. */
        public function pipeline(array $commands): array
        {
        }

        /** Runs commands all at one moment; null where a watched key was changed. */
        public function transaction(array $commands): ?array
        {
        }

        /** Sends a message; returns how many receive it. */
        public function publish(string $channel, string $message): int
        {
        }

        public function subscribe(array $channels, array $patterns = []): void
        {
        }

        public function unsubscribe(array $channels, array $patterns = []): void
        {
        }

        /**
         * The next message: `['message', channel, text]`, `['pmessage', pattern, channel, text]`, or `['lost', null,
         * number]` where messages were overwritten before they were taken. Null where none came in so many seconds;
         * null waits for ever.
         */
        public function message(?float $timeout = null): ?array
        {
        }

        public function close(): void
        {
        }
    }

    /**
     * A connection to a server that speaks RESP2 or RESP3. After an exception other than ServerException, ValueError
     * and TypeError it is closed.
     */
    final class Connection
    {
        /** The code of an exception in a forked child that uses its parent's connection: nothing was sent. */
        public const INHERITED = 1;

        /** The code in functions of the shutdown, after the program ended in the midst of a call: nothing was sent. */
        public const ABANDONED = 2;

        /** The code after an error, or the exception of a signal's handler, closed the connection: nothing was sent. */
        public const CLOSED = 3;

        /**
         * @param string $address `tcp://host:port` or `unix:///path`; times are seconds, 0 is without end
         * @param string|null $persistent what it is called among connections that outlive their request: the process
         *        keeps it for the next object with this address and name, unless it is closed or a reply is on its way.
         *        What the server remembers for it (SELECT, AUTH, WATCH, MULTI) is to be RESET by whoever takes it.
         * @param int $spin for so many microseconds, 0 to 1000, a reply is looked for before the process sleeps
         */
        public function __construct(
            string $address,
            float $connect_timeout = 5.0,
            float $timeout = 0.0,
            ?string $persistent = null,
            int $spin = 0,
        ) {
        }

        /**
         * Runs a command. What the server pushes meanwhile is skipped. $timeout is this call's alone; negative is
         * without end.
         */
        public function execute(array $words, ?float $timeout = null): mixed
        {
        }

        /** Sends commands in one piece and returns their replies; errors stand among them, as ServerExceptions. */
        public function pipeline(array $commands): array
        {
        }

        /** Sends commands; receive() returns their replies. */
        public function send(array $commands): void
        {
        }

        /** The next reply or message. An error is returned. A $timeout of the call's own leaves the connection open. */
        public function receive(?float $timeout = null): mixed
        {
        }

        public function isOpen(): bool
        {
        }

        /** Whether it is one that another object has left. */
        public function isReused(): bool
        {
        }

        /** Whether what was received last was pushed, and is no reply. */
        public function isPush(): bool
        {
        }

        public function close(): void
        {
        }
    }

    /** Replies out of bytes that PHP has read, as from a stream with TLS. */
    final class Parser
    {
        public function feed(string $bytes): void
        {
        }

        /** Whether a whole reply is there, which reply() returns then. After a ProtocolException there is none. */
        public function next(): bool
        {
        }

        /** The reply that next() has found, once. An error is a ServerException object, which is returned. */
        public function reply(): mixed
        {
        }

        public function isPush(): bool
        {
        }

        /** Whether bytes are there that belong to no reply yet. */
        public function hasBytes(): bool
        {
        }
    }
}
