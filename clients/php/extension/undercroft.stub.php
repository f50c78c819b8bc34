<?php

// Declares the extension's classes for readers and editors. A test compares the declarations with
// the extension.

namespace Undercroft {
    /** The base class of all Undercroft exceptions. */
    class UndercroftException extends \RuntimeException
    {
    }

    /** The server or store replied with an error. */
    class ServerException extends UndercroftException
    {
        /**
         * Returns the error code, which is the first word of the message: ERR, WRONGTYPE, OOM, ...
         */
        public function kind(): string
        {
        }
    }

    /**
     * A store could not be opened, is busy, or was removed or closed, or a wait was interrupted.
     */
    class StoreException extends UndercroftException
    {
    }

    /** A connection could not be opened or was lost. */
    class ConnectionException extends UndercroftException
    {
    }

    /** A server did not reply in time. */
    class TimeoutException extends ConnectionException
    {
    }

    /** A server sent bytes that violate its protocol. */
    class ProtocolException extends ConnectionException
    {
    }
}

namespace Undercroft\Native {
    /**
     * A store in shared memory. After the request, the process keeps the store open for later
     * requests.
     *
     * Methods throw ServerException if a command replies with an error, and StoreException if the
     * store cannot be used. Command words are strings, integers, floats, and objects that convert
     * to strings.
     */
    final class Store
    {
        /**
         * Opens a store, creating it if it does not exist: `undercroft://name`,
         * `undercroft:///path`, or a path.
         *
         * @param array{db?: int, maxmemory?: int, capacity?: int, policy?: string, durability?: string, journal?: string, strict?: bool, timeout?: int|float} $options
         *     `db`: the database, 0 to 15. For creating a store, `maxmemory`: the limit on
         *     its data in bytes, -1 for no limit; `capacity`: its address space in bytes; `policy`:
         *     the keys to evict. `durability`: `none`, `everysec` or `always`, when changes survive
         *     a power cut; `journal`: the folder of the journal. `timeout`: seconds to wait for a
         *     lock that another process holds.
         */
        public function __construct(string $url, array $options = [])
        {
        }

        /** Returns the string at a key, or null if the key does not exist. O(length). */
        public function get(string $key): ?string
        {
        }

        /**
         * Sets a key to a string, optionally with an expiry in milliseconds. Always returns true.
         * O(length).
         */
        public function set(string $key, string $value, ?int $ttl_ms = null): bool
        {
        }

        /** Adds a number to the integer at a key and returns the sum. */
        public function incr(string $key, int $by = 1): int
        {
        }

        /**
         * Returns the strings at several keys, read atomically. The result is null for each key
         * that does not hold a string.
         */
        public function mget(array $keys): array
        {
        }

        /** Sets all keys in an array to their values, atomically. */
        public function mset(array $pairs): bool
        {
        }

        /** Removes keys and returns the number of keys that existed. */
        public function del(string $key, string ...$keys): int
        {
        }

        /** Returns how many of the given keys exist. */
        public function exists(string $key, string ...$keys): int
        {
        }

        /** Sets a key's expiry in milliseconds. Returns false if the key does not exist. */
        public function expire(string $key, int $ttl_ms): bool
        {
        }

        /**
         * Returns the milliseconds until a key expires, -1 if it does not expire, or null if it
         * does not exist.
         */
        public function ttl(string $key): ?int
        {
        }

        /**
         * Runs any command: `['LPUSH', 'queue', 'job']`. The object is a session, like a connection
         * to a server, and preserves the state of SELECT, MULTI and WATCH between calls. Maps are
         * returned as associative arrays, and scores as floats.
         *
         * @param list<string|int|float|\Stringable> $words
         */
        public function execute(array $words): mixed
        {
        }

        /**
         * Runs commands in order and returns their replies. Errors are returned in the list as
         * ServerException objects.
         */
        public function pipeline(array $commands): array
        {
        }

        /** Runs commands atomically. Returns null if a watched key changed. */
        public function transaction(array $commands): ?array
        {
        }

        /** Publishes a message and returns the number of receivers. */
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
         * Returns the next message: `['message', channel, text]` or `['pmessage', pattern, channel,
         * text]`. If messages were overwritten before they were read, returns `['lost', null,
         * number]`. Returns null if no message arrives within `$timeout` seconds. A null timeout
         * waits without limit.
         */
        public function message(?float $timeout = null): ?array
        {
        }

        public function close(): void
        {
        }
    }

    /**
     * A channel in a store, which stays open as long as this object. A null `$timeout` waits without
     * limit, and 0 does not wait. A signal handler that throws ends a wait; nothing is then sent or
     * received.
     */
    final class Channel
    {
        /**
         * @param int $bound the number of messages at which send() waits; 0 means no bound
         * @param int $ttl_ms milliseconds after which a message of 32 KiB or more is dropped if
         *     nothing receives it; 0 means never
         */
        public function __construct(Store $store, string $name, int $bound = 1000, int $ttl_ms = 0)
        {
        }

        /**
         * Sends bytes. Returns false if the channel is still full after `$timeout` seconds, and null
         * if it is closed. O(bytes).
         */
        public function send(string $bytes, ?float $timeout = null): ?bool
        {
        }

        /** Sends a text in UTF-8, like send(). */
        public function sendText(string $text, ?float $timeout = null): ?bool
        {
        }

        /**
         * Sends an array in C order, like send().
         *
         * @param string $dtype the type of the items in numpy's notation, such as `<f8`
         * @param list<int> $shape
         */
        public function sendArray(string $dtype, array $shape, string $items, ?float $timeout = null): ?bool
        {
        }

        /**
         * Removes the first message. Returns its kind, its bytes, and an array's type and shape: `['a',
         * bytes, '<f8', [2, 3]]`; `b` means bytes and `s` text. Returns null if no message arrives
         * within `$timeout` seconds, and false if the channel is closed and empty. O(bytes).
         */
        public function receive(?float $timeout = null): array|false|null
        {
        }

        /**
         * Receives the first message like receive(), and holds it until Held::end(). If the object is
         * destroyed or the process dies before, the message returns to the front of the channel.
         */
        public function hold(?float $timeout = null): Held|false|null
        {
        }

        /** Returns the number of messages, without held ones. */
        public function length(): int
        {
        }

        public function isClosed(): bool
        {
        }

        /** Closes the channel for all processes. The object stays usable. */
        public function close(): void
        {
        }

        /** Deletes all messages, and opens the channel again. O(messages). */
        public function delete(): void
        {
        }
    }

    /** A message that this process holds. */
    final class Held
    {
        /** Returns the message as Channel::receive() does, or null once the hold has ended. */
        public function message(): ?array
        {
        }

        /**
         * Ends the hold: deletes the message, or returns it to the front of the channel. Returns false
         * if it was no longer held. Throws in a forked child of the process that received the message.
         */
        public function end(bool $goes_back): bool
        {
        }
    }

    /**
     * A connection to a server that speaks RESP2 or RESP3. Any exception except ServerException,
     * ValueError and TypeError closes the connection.
     */
    final class Connection
    {
        /**
         * The exception code after a forked child used its parent's connection. Nothing was sent.
         */
        public const INHERITED = 1;

        /**
         * The exception code in a shutdown function if the program ended in the middle of a call.
         * Nothing was sent.
         */
        public const ABANDONED = 2;

        /**
         * The exception code if an error or a signal handler's exception has closed the connection.
         * Nothing was sent.
         */
        public const CLOSED = 3;

        /**
         * @param string $address `tcp://host:port` or `unix:///path`
         * @param float $connect_timeout seconds to wait for the connection to open; 0 means no
         *     limit
         * @param float $timeout seconds to wait for a reply; 0 means no limit
         * @param string|null $persistent the name of a connection that outlives its request: the
         *     process keeps it open for the next object with this address and name, unless it is
         *     closed or a reply is pending. The next user must RESET the server's state for the
         *     connection (SELECT, AUTH, WATCH, MULTI).
         * @param int $spin microseconds, 0 to 1000, to poll for a reply before the process sleeps
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
         * Runs a command. Push messages that arrive in the meantime are dropped. `$timeout` applies
         * to this call only; a negative value means no limit.
         */
        public function execute(array $words, ?float $timeout = null): mixed
        {
        }

        /**
         * Sends commands together and returns their replies. Errors are returned in the list as
         * ServerException objects.
         */
        public function pipeline(array $commands): array
        {
        }

        /** Sends commands without reading replies, which receive() returns later. */
        public function send(array $commands): void
        {
        }

        /**
         * Returns the next reply or message. An error reply is returned, not thrown. If `$timeout`
         * is given and expires, the connection stays open.
         */
        public function receive(?float $timeout = null): mixed
        {
        }

        public function isOpen(): bool
        {
        }

        /** Returns whether an earlier object has used the connection. */
        public function isReused(): bool
        {
        }

        /** Returns whether the last received value was a push message rather than a reply. */
        public function isPush(): bool
        {
        }

        public function close(): void
        {
        }
    }

    /** Parses replies from bytes that PHP has read, such as from a TLS stream. */
    final class Parser
    {
        public function feed(string $bytes): void
        {
        }

        /**
         * Returns whether a complete reply is buffered, which reply() then returns. After a
         * ProtocolException, no further reply is returned.
         */
        public function next(): bool
        {
        }

        /**
         * Returns the reply that next() found. Each reply is returned only once. An error reply is
         * returned as a ServerException, not thrown.
         */
        public function reply(): mixed
        {
        }

        public function isPush(): bool
        {
        }

        /** Returns whether the buffer contains bytes of an incomplete reply. */
        public function hasBytes(): bool
        {
        }
    }
}
