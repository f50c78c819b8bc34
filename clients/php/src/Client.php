<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Commands\KeyWords;
use Undercroft\Commands\Replies;
use Undercroft\Commands\Table;
use Undercroft\Commands\Words;
use Undercroft\Connection\Address;
use Undercroft\Connection\ClusterConnection;
use Undercroft\Connection\Connection;
use Undercroft\Connection\EmbeddedConnection;
use Undercroft\Connection\NativeConnection;
use Undercroft\Connection\Options;
use Undercroft\Connection\StreamConnection;
use Undercroft\Serializer\Named;
use Undercroft\Serializer\Serializer;

/**
 * A client for a store in shared memory, a server or a cluster, depending on the URL.
 *
 *     $client = new Undercroft\Client('tcp://127.0.0.1:6379', ['prefix' => 'shop:']);
 *     $client->set('greeting', 'hello', ['ex' => 60]);
 *     echo $client->get('greeting');
 *
 * Every command is a method with the same name as in Predis and phpredis. A missing value is
 * returned as null, and a yes-or-no reply as true or false. Errors from the server throw
 * ServerException. Connection failures throw ConnectionException.
 */
class Client
{
    use Commands\Base;
    use Commands\Methods;

    private const OPTIONS = ['prefix', 'serializer', 'commands'];

    private Connection $connection;

    private readonly bool $hasMaps;

    /**
     * The connection if it is an embedded store, so that frequent calls need not build a list of
     * words.
     */
    private ?EmbeddedConnection $embedded;

    /**
     * @param string|array<string, mixed>|Connection $place `undercroft://name`,
     *     `tcp://host:port/database`, `tls://...`, `unix:///path`,
     *     `redis+cluster://host:port,host:port`; or an array with scheme, host, port, path,
     *     username, password, database
     * @param array<string, mixed> $options `prefix` for all keys; `serializer`: json, igbinary,
     *     msgpack, php or a Serializer; `commands`: name => Command; and the connection options:
     *     `timeout` and `connect_timeout` in seconds, `protocol` 2 or 3, `persistent`,
     *     `client_name`, `ssl`, `native`, `retry`, `spin`, `store`
     *
     * @throws ArgumentException
     */
    public function __construct(string|array|Connection $place = 'tcp://127.0.0.1:6379', array $options = [])
    {
        $unknown = $options === [] ? [] : array_diff(array_keys($options), self::OPTIONS, Options::names());
        if ($unknown !== []) {
            throw new ArgumentException('expected options of ' . implode(', ', [...self::OPTIONS, ...Options::names()])
                . '; got ' . implode(', ', $unknown));
        }
        $this->prefix = (string) ($options['prefix'] ?? '');
        $serializer = $options['serializer'] ?? null;
        $this->serializer = is_string($serializer) ? new Named($serializer) : $serializer;
        $this->connection = $place instanceof Connection ? $place : self::connected(Address::of($place), $options);
        $this->hasMaps = $this->connection->hasMaps();
        $this->embedded = $this->connection instanceof EmbeddedConnection ? $this->connection : null;
        foreach ($options['commands'] ?? [] as $name => $command) {
            $this->register($name, is_string($command) ? new $command() : $command);
        }
    }

    /** Creates the connection that matches the address and the options. */
    private static function connected(Address $address, array $options): Connection
    {
        $options = Options::of($options + $address->options);
        if ($address->scheme === 'cluster') {
            return new ClusterConnection($address, $options);
        }
        if ($address->scheme === 'undercroft') {
            if (!class_exists(Native\Store::class, false)) {
                throw new ArgumentException("$address is a store in shared memory, which needs the PHP extension "
                    . "'undercroft': load it, as with `php -d extension=/path/to/undercroft.so`, or run "
                    . '`undercroft serve` on the store and use redis:// or unix://');
            }
            return new EmbeddedConnection($address, $options);
        }
        // The extension's connections do not support TLS. For TLS, the extension only parses
        // replies.
        $isNative = $options->native && $address->scheme !== 'tls' && class_exists(Native\Connection::class, false);
        return $isNative ? new NativeConnection($address, $options) : new StreamConnection($address, $options);
    }

    /**
     * Returns the string value of a key. Time: O(1).
     *
     * @return mixed the value, or null if the key does not exist
     */
    public function get(string $key): mixed
    {
        $value = $this->embedded === null
            ? $this->connection->execute(['GET', $this->prefix . $key])
            : ($this->embedded->store ?? $this->embedded->open())->get($this->prefix . $key);
        return $this->serializer === null || $value === null ? $value : $this->serializer->decode($value);
    }

    /**
     * Sets the string value of a key. Time: O(1).
     *
     * `set('k', 'v', ['nx', 'ex' => 10])`, `set('k', 'v', 10)` to expire after ten seconds,
     * `set('k', 'v', 'EX', 10, 'NX')`. Options: `nx`, `xx`, `get`, `ex`, `px`, `exat`, `pxat`,
     * `keepttl`.
     *
     * @return mixed whether the value was stored; with `get`, the old value or null
     */
    public function set(string $key, mixed $value, mixed ...$options): mixed
    {
        if ($options !== []) {
            return $this->setWith($key, $value, $options);
        }
        $value = $this->serializer === null ? $value : $this->serializer->encode($value);
        return $this->embedded === null || !is_string($value)
            ? $this->connection->execute(['SET', $this->prefix . $key, $value]) === 'OK'
            : ($this->embedded->store ?? $this->embedded->open())->set($this->prefix . $key, $value);
    }

    /**
     * Runs a command given as raw words: no prefix or serializer is applied, and the reply is
     * returned unconverted.
     *
     * @param list<string|int|float> $words
     *
     * @throws ServerException
     */
    public function execute(array $words): mixed
    {
        $words = array_values($words);
        $name = strtoupper((string) ($words[0] ?? throw new ArgumentException('expected a command, got no arguments')));
        Words::check($name);
        if ($name === 'WATCH' || $name === 'UNWATCH') {
            return Watches::execute($this->connection, $words);
        }
        $wait = Table::WAITS[$name] ?? null;
        if ($wait === null) {
            return $this->connection->execute($words, str_starts_with($name, 'XREAD') ? Words::block($words) : null);
        }
        return $this->connection->execute($words, (float) ($words[$wait < 0 ? count($words) + $wait : $wait] ?? 0));
    }

    /**
     * Runs a command given as raw words, one argument per word. This is the phpredis form of
     * execute().
     */
    public function rawCommand(string|int|float ...$words): mixed
    {
        return $this->execute($words);
    }

    /**
     * Sends several commands in one round trip.
     *
     * `pipeline(fn ($pipe) => ...)` returns the results. `pipeline()` returns a Pipeline, whose
     * execute() returns the results.
     *
     * @return Pipeline|list<mixed>
     */
    public function pipeline(?callable $body = null, bool $throws = true): Pipeline|array
    {
        $pipeline = new Pipeline($this->connection, $this->prefix, $this->serializer, $this->custom, false);
        if ($body === null) {
            return $pipeline;
        }
        $body($pipeline);
        return $pipeline->execute($throws) ?? [];
    }

    /**
     * Runs several commands atomically.
     *
     * `transaction(fn ($queue, $client) => ...)` returns the results. `transaction()` returns a
     * Pipeline, whose execute() returns the results.
     *
     * With `$watch`, values that the callback reads through `$client` are still current when its
     * commands run. If a watched key changes first, no command runs and the callback is called
     * again, up to `$retry` times. A transaction() that starts inside such a callback, or in
     * another fiber while the callback runs, uses a separate connection and completes first.
     *
     * @param string|list<string> $watch
     *
     * @return Pipeline|list<mixed>|null null if a watched key changed during every attempt
     */
    public function transaction(
        ?callable $body = null,
        string|array $watch = [],
        int $retry = 0,
        bool $throws = true,
    ): Pipeline|array|null {
        if ($body !== null && Watches::areOthers($this->connection)) {
            return $this->on($this->connection->another())->transaction($body, $watch, $retry, $throws);
        }
        $queue = new Pipeline($this->connection, $this->prefix, $this->serializer, $this->custom, true);
        if ($body === null) {
            if ($watch !== []) {
                $this->watch($watch);
            }
            return $queue;
        }
        for (; ; $retry--) {
            $results = Watches::attempt($this, $queue, $body, $watch, $throws);
            if ($results !== null || $retry <= 0) {
                return $results;
            }
        }
    }

    /** Returns a copy of this client that uses another connection. */
    private function on(Connection $connection): self
    {
        $client = clone $this;
        $client->connection = $connection;
        $client->embedded = $connection instanceof EmbeddedConnection ? $connection : null;
        return $client;
    }

    /** Starts a transaction. This is the phpredis name for transaction(). */
    public function multi(): Pipeline
    {
        return $this->transaction();
    }

    /** Makes the next transaction fail if one of these keys changes before it runs. */
    public function watch(string|array ...$keys): bool
    {
        return Watches::execute($this->connection, ['WATCH', ...Words::prefixed($keys, $this->prefix)]) === 'OK';
    }

    public function unwatch(): bool
    {
        return Watches::execute($this->connection, ['UNWATCH']) === 'OK';
    }

    /**
     * Subscribes to channels on a separate connection.
     *
     *     foreach ($client->pubSubLoop(['subscribe' => ['news'], 'psubscribe' => 'log.*']) as $message) {
     *         echo $message->channel, $message->payload;
     *     }
     *
     * @param array{subscribe?: string|list<string>, psubscribe?: string|list<string>} $channels
     * @param callable|null $each called with each message until it returns false; no PubSub is
     *     returned
     */
    public function pubSubLoop(array $channels, ?callable $each = null): ?PubSub
    {
        $loop = new PubSub($this->connection->another(), $channels);
        if ($each === null) {
            return $loop;
        }
        foreach ($loop as $message) {
            if ($each($message, $loop) === false) {
                $loop->stop();
            }
        }
        return null;
    }

    /**
     * Iterates over all keys, with indexes that start at 0. A key that exists throughout the scan
     * is returned at least once.
     */
    public function scanIterator(?string $match = null, int $count = 100, ?string $type = null): \Generator
    {
        $options = array_filter(['match' => $match, 'count' => $count, 'type' => $type]);
        $nodes = $this->connection instanceof ClusterConnection ? $this->connection->owners() : null;
        foreach ($nodes ?? [null] as $node) {
            $client = $node === null ? $this : $this->on($this->connection->node($node));
            foreach (Scans::keys($client, $options) as $key) {
                yield $key;
            }
        }
    }

    /** Iterates over all fields in a hash, with their values. */
    public function hScanIterator(string $key, ?string $match = null, int $count = 100): \Generator
    {
        return Scans::items($this, 'hScan', $key, $match, $count);
    }

    /** Iterates over all members of a set, with indexes starting at 0. */
    public function sScanIterator(string $key, ?string $match = null, int $count = 100): \Generator
    {
        return Scans::items($this, 'sScan', $key, $match, $count);
    }

    /** Iterates over all members of a sorted set, with their scores. */
    public function zScanIterator(string $key, ?string $match = null, int $count = 100): \Generator
    {
        return Scans::items($this, 'zScan', $key, $match, $count);
    }

    /** Registers a custom command, such as a Lua Script, as a method of this client. */
    public function register(string $name, Command $command): void
    {
        if (method_exists(self::class, $name) || $this->family($name) !== null) {
            throw new ArgumentException("expected a name that is not a method, got $name");
        }
        $this->custom[strtolower($name)] = $command;
    }

    /** Returns a key with the client's prefix. The method's name is the phpredis name. */
    public function _prefix(string $key): string
    {
        return $this->prefix . $key;
    }

    public function connection(): Connection
    {
        return $this->connection;
    }

    /** Closes the connection. The next call reconnects. */
    public function close(): void
    {
        $this->connection->close();
    }

    protected function call(array $words, string $shape = '', string|int|float|null $wait = null): mixed
    {
        $reply = $wait === null
            ? $this->connection->execute($words)
            : $this->connection->execute($words, (float) $wait);
        return $shape === '' ? $reply : Replies::shaped($reply, $shape, $words, $this->hasMaps, $this->serializer);
    }

    protected function converted(array $words, ?callable $convert): mixed
    {
        $reply = $this->connection->execute($words);
        return $convert === null ? $reply : $convert($reply);
    }

    protected function custom(Command $command, array $arguments): mixed
    {
        $arguments = Words::flat($arguments);
        if ($command instanceof Script) {
            try {
                return $command->result($this->connection->execute($this->withPrefix($command->short($arguments))));
            } catch (ServerException $error) {
                if ($error->kind() !== 'NOSCRIPT') {
                    throw $error;
                }
            }
        }
        return $command->result($this->connection->execute($this->withPrefix($command->words($arguments))));
    }

    private function withPrefix(array $words): array
    {
        return $this->prefix === '' ? $words : KeyWords::prefixed($words, $this->prefix);
    }
}
