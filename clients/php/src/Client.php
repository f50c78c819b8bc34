<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Connection\Address;
use Undercroft\Connection\ClusterConnection;
use Undercroft\Connection\Connection;
use Undercroft\Connection\EmbeddedConnection;
use Undercroft\Connection\Factory;
use Undercroft\Connection\Options;
use Undercroft\Serializer\Named;
use Undercroft\Serializer\Serializer;

/**
 * A client of a store in shared memory, of a server or of a cluster of servers; which one, its URL says.
 *
 *     $client = new Undercroft\Client('tcp://127.0.0.1:6379', ['prefix' => 'shop:']);
 *     $client->set('greeting', 'hello', ['ex' => 60]);
 *     echo $client->get('greeting');
 *
 * Every command is a method, named as Predis and phpredis users know it. What is missing is null; what says yes or no
 * is true or false. Errors of the server are ServerException, those of connections ConnectionException.
 */
class Client
{
    use Commands\Written;
    use Commands\Strings;
    use Commands\Lists;
    use Commands\Hashes;
    use Commands\Sets;
    use Commands\SortedSets;
    use Commands\Keys;
    use Commands\Server;
    use Commands\Streams;
    use Commands\StreamsWritten;

    private const OPTIONS = ['prefix', 'serializer', 'commands'];

    private Connection $connection;

    private readonly bool $hasMaps;

    /** The same connection where it is a store, whose most frequent calls need no words. */
    private ?EmbeddedConnection $embedded;

    /**
     * @param string|array<string, mixed>|Connection $place `undercroft://name`, `tcp://host:port/database`,
     *     `tls://...`, `unix:///path`, `redis+cluster://host:port,host:port`; or an array of scheme, host, port, path,
     *     username, password, database
     * @param array<string, mixed> $options `prefix` of all keys; `serializer`: json, igbinary, msgpack or php, or a
     *     Serializer; `commands`: name => Command; and those of connections: `timeout` and `connect_timeout` in
     *     seconds, `protocol` 2 or 3, `persistent`, `client_name`, `ssl`, `native`, `retry`, `spin`, `store`
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

    private static function connected(Address $address, array $options): Connection
    {
        return Factory::connection($address, Options::of($options + $address->options));
    }

    public function get(string $key): mixed
    {
        $value = $this->embedded === null
            ? $this->connection->execute(['GET', $this->prefix . $key])
            : ($this->embedded->store ?? $this->embedded->open())->get($this->prefix . $key);
        return $this->serializer === null || $value === null ? $value : $this->serializer->decode($value);
    }

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
     * Runs a command by its words, as they are: without prefix and serializer, and with the reply as it comes.
     *
     * @param list<string|int|float> $words
     *
     * @throws ServerException
     */
    public function execute(array $words): mixed
    {
        $words = array_values($words);
        $name = strtoupper((string) ($words[0] ?? throw new ArgumentException('expected a command, got no words')));
        Words::check($name);
        if ($name === 'WATCH' || $name === 'UNWATCH') {
            return $this->watching($words);
        }
        $wait = Table::WAITS[$name] ?? null;
        if ($wait === null) {
            return $this->connection->execute($words, str_starts_with($name, 'XREAD') ? Words::block($words) : null);
        }
        return $this->connection->execute($words, (float) ($words[$wait < 0 ? count($words) + $wait : $wait] ?? 0));
    }

    /** The same as execute(), as phpredis calls it: each word is an argument. */
    public function rawCommand(string|int|float ...$words): mixed
    {
        return $this->execute($words);
    }

    /**
     * Sends commands together. `pipeline(fn ($pipe) => ...)` returns their results; `pipeline()` a Pipeline, whose
     * execute() does.
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
     * Runs commands all at one moment. `transaction(fn ($queue, $client) => ...)` returns their results;
     * `transaction()` a Pipeline, whose execute() does.
     *
     * With keys to watch, what the function reads by $client is still true when its commands run: where one of the keys
     * was changed meanwhile, nothing runs and the function is called again, so many times. A transaction() inside of
     * such a function, or in another fiber meanwhile, has a connection of its own and ends first.
     *
     * @param string|list<string> $watch
     *
     * @return Pipeline|list<mixed>|null null where a watched key was changed each time
     */
    public function transaction(
        ?callable $body = null,
        string|array $watch = [],
        int $retry = 0,
        bool $throws = true,
    ): Pipeline|array|null {
        if ($body !== null && Watches::areOthers($this->connection)) {
            return $this->apart()->transaction($body, $watch, $retry, $throws);
        }
        $queue = new Pipeline($this->connection, $this->prefix, $this->serializer, $this->custom, true);
        if ($body === null) {
            if ($watch !== []) {
                $this->watch($watch);
            }
            return $queue;
        }
        for (; ; $retry--) {
            $results = $this->attempt($queue, $body, $watch, $throws);
            if ($results !== null || $retry <= 0) {
                return $results;
            }
        }
    }

    /** @return list<mixed>|null null where a watched key was changed */
    private function attempt(Pipeline $queue, callable $body, string|array $watch, bool $throws): ?array
    {
        if ($watch === [] && !$this->connection->isPinned()) {
            $body($queue, $this);
            return $queue->execute($throws);
        }
        // Before WATCH, as a signal's handler that comes after it must not end the watch by a transaction of its own.
        Watches::begin($this->connection, $queue);
        try {
            $watch === [] || $this->watch($watch);
            $body($queue, $this);
            if (!$this->connection->isPinned()) {
                throw new ConnectionException('the connection was lost or closed that watched keys for a transaction, '
                    . 'which did not run');
            }
            return $queue->execute($throws);
        } catch (\Throwable $error) {
            Watches::end($this->connection);
            if ($watch !== [] && $this->connection->isPinned()) {
                $this->unwatch();
            }
            throw $error;
        } finally {
            Watches::end($this->connection);
            // Keys of watch() stay watched where nothing ran.
            $this->connection->isPinned() && Watches::begin($this->connection);
        }
    }

    /** The same client on a connection of its own. */
    private function apart(): self
    {
        $client = clone $this;
        $client->connection = $this->connection->another();
        $client->embedded = $client->connection instanceof EmbeddedConnection ? $client->connection : null;
        return $client;
    }

    /** The same as transaction(), as phpredis calls it. */
    public function multi(): Pipeline
    {
        return $this->transaction();
    }

    /** Has the next transaction run only where none of these keys is changed before it. */
    public function watch(string|array ...$keys): bool
    {
        return $this->watching(['WATCH', ...$this->prefixed($keys)]) === 'OK';
    }

    public function unwatch(): bool
    {
        return $this->watching(['UNWATCH']) === 'OK';
    }

    private function watching(array $words): mixed
    {
        $isWatch = strtoupper((string) $words[0]) === 'WATCH';
        $isInside = Watches::isInside($this->connection);
        $isWatch && $isInside || Watches::check($this->connection, (string) $words[0]);
        $isWatch || $this->connection->pin(false);
        $reply = $this->connection->execute($words);
        if ($isWatch) {
            $this->connection->pin(true);
            $isInside || Watches::begin($this->connection);
        } else {
            Watches::end($this->connection);
        }
        return $reply;
    }

    /**
     * Listens to channels, on a connection of its own.
     *
     *     foreach ($client->pubSubLoop(['subscribe' => ['news'], 'psubscribe' => 'log.*']) as $message) {
     *         echo $message->channel, $message->payload;
     *     }
     *
     * @param array{subscribe?: string|list<string>, psubscribe?: string|list<string>} $channels
     * @param callable|null $each called with each message instead; it ends the loop by returning false
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

    /** All keys, one after the other. Each that is there all the time comes at least once. */
    public function scanIterator(?string $match = null, int $count = 100, ?string $type = null): \Generator
    {
        $options = array_filter(['match' => $match, 'count' => $count, 'type' => $type]);
        if ($this->connection instanceof ClusterConnection) {
            foreach ($this->connection->owners() as $node) {
                $client = clone $this;
                $client->connection = $this->connection->node($node);
                yield from self::each($client->scanIterator($match, $count, $type));
            }
            return;
        }
        $cursor = '0';
        do {
            [$cursor, $keys] = $this->scan($cursor, $options);
            yield from self::each($keys);
        } while ($cursor !== '0');
    }

    /** All fields of a hash with their values. */
    public function hScanIterator(string $key, ?string $match = null, int $count = 100): \Generator
    {
        return $this->portions('hScan', $key, $match, $count);
    }

    /** All members of a set. */
    public function sScanIterator(string $key, ?string $match = null, int $count = 100): \Generator
    {
        return $this->portions('sScan', $key, $match, $count);
    }

    /** All members of a sorted set with their scores. */
    public function zScanIterator(string $key, ?string $match = null, int $count = 100): \Generator
    {
        return $this->portions('zScan', $key, $match, $count);
    }

    private function portions(string $method, string $key, ?string $match, int $count): \Generator
    {
        $options = array_filter(['match' => $match, 'count' => $count]);
        $cursor = '0';
        do {
            [$cursor, $items] = $this->$method($key, $cursor, $options);
            if ($method === 'sScan') {
                yield from self::each($items);
            } else {
                // Names that are numbers are strings here, as they are in the store.
                foreach ($items as $name => $value) {
                    yield (string) $name => $value;
                }
            }
        } while ($cursor !== '0');
    }

    /** Without keys of their own, so that portions can be put into one array. */
    private static function each(iterable $items): \Generator
    {
        foreach ($items as $item) {
            yield $item;
        }
    }

    /** Adds a command: a Command, or a Script in Lua. */
    public function register(string $name, Command $command): void
    {
        if (method_exists(self::class, $name)) {
            throw new ArgumentException("expected a name that no method has, got $name");
        }
        $this->custom[strtolower($name)] = $command;
    }

    /** A key as the server has it, with the prefix. phpredis calls it so. */
    public function _prefix(string $key): string
    {
        return $this->prefix . $key;
    }

    public function connection(): Connection
    {
        return $this->connection;
    }

    /** Closes the connection. The next call makes it anew. */
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
