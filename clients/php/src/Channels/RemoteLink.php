<?php

declare(strict_types=1);

namespace Undercroft\Channels;

use Undercroft\Client;
use Undercroft\Connection\Connection;
use Undercroft\Pipeline;
use Undercroft\ServerException;

/**
 * A channel on a server, through commands that every Redis server since 6.2 has. Python's
 * `undercroft/channels/remote.py` uses the same keys in the same way.
 *
 * A producer appends an item and receives the new number of items. If that exceeds the bound, or the
 * channel is closed, the producer removes the item again, unless a consumer already has. Waiters
 * sleep only briefly before they check again, so no progress depends on a wakeup.
 */
final class RemoteLink implements Link
{
    /** The seconds that a waiting consumer and a waiting producer sleep between checks. */
    private const SLICE = 1.0;

    private const ROOM_SLICE = 0.1;

    /** The seconds between two checks for consumers past their deadline. */
    private const RECALL = 1.0;

    /** The milliseconds for which a waiting producer stays registered, and the number of its tokens. */
    private const WANTED = 2000;

    private const TOKENS = 64;

    private readonly Connection $connection;

    private readonly string $items;

    private readonly string $closed;

    private readonly string $consumers;

    private readonly string $held;

    /** The keys of the tokens that wake producers and consumers, and of the flag of a waiting producer. */
    private readonly string $room;

    private readonly string $wake;

    private readonly string $wanted;

    /** The beginning of the names of this object's holds, and the number of the next one. */
    private readonly string $start;

    private int $next = 0;

    /** The difference between the server's clock and this machine's, in seconds. */
    private ?float $offset = null;

    private float $recalled = -self::RECALL;

    /** @param Client $client a client without a prefix and a serializer */
    public function __construct(
        private readonly Client $client,
        string $name,
        private readonly int $bound,
        private readonly float $visibility,
    ) {
        $this->connection = $client->connection();
        $this->items = "undercroft:channel:{{$name}}";
        $this->closed = "$this->items:closed";
        $this->consumers = "$this->items:consumers";
        $this->held = "$this->items:held:";
        $this->room = "$this->items:room";
        $this->wake = "$this->items:wake";
        $this->wanted = "$this->items:wanted";
        $this->start = '~' . bin2hex(random_bytes(9)) . '-';
    }

    public function send(string $kind, string $bytes, ?float $timeout): bool
    {
        return $this->add(Item::of($kind, $bytes), self::until($timeout));
    }

    public function sendArray(string $dtype, array $shape, string $items, ?float $timeout): bool
    {
        return $this->add(Item::ofArray($dtype, $shape, $items), self::until($timeout));
    }

    private function add(string $item, float $until): bool
    {
        while (!$this->isAdded($item)) {
            $left = $until - self::now();
            if ($left <= 0) {
                return false;
            }
            $this->run('SET', $this->wanted, '1', 'PX', self::WANTED);
            // From here on, consumers that remove a message push a token.
            $this->pop(min($left, self::ROOM_SLICE), $this->room);
        }
        return true;
    }

    private function isAdded(string $item): bool
    {
        [$length, $closed] = $this->together(['RPUSH', $this->items, $item], ['EXISTS', $this->closed]);
        if (($this->bound === 0 || $length <= $this->bound) && !$closed) {
            return true;
        }
        if (!$this->run('LREM', $this->items, -1, $item)) {
            // A consumer has already removed the item, so it counts as sent.
            return true;
        }
        return $closed ? throw new ChannelClosed() : false;
    }

    public function receive(?float $timeout): ?Received
    {
        for ($until = self::until($timeout);;) {
            $this->recallAtTimes();
            [$item, $closed, $wanted] = $this->together(
                ['LPOP', $this->items],
                ['EXISTS', $this->closed],
                ['EXISTS', $this->wanted],
            );
            if ($item === null) {
                $closed && throw new ChannelClosed();
                $left = $until - self::now();
                if ($left <= 0) {
                    return null;
                }
                [$key, $item] = $this->pop(min($left, self::SLICE), $this->items, $this->wake) ?? [null, null];
                if ($key === $this->wake) {
                    // Pass the wakeup on, because other consumers wait for it as well.
                    $this->isClosed() && $this->wakeAll();
                    continue;
                }
            } elseif ($wanted) {
                $this->wakeProducer();
            }
            if ($item !== null) {
                $this->expectReadable($item, fn () => $this->run('LPUSH', $this->items, $item));
                $received = $this->received($item, true);
                if ($received !== null) {
                    return $received;
                }
            }
        }
    }

    public function hold(?float $timeout): ?Delivery
    {
        $until = self::until($timeout);
        $consumer = $this->start . $this->next++;
        $held = $this->held . $consumer;
        try {
            for (;;) {
                $this->recallAtTimes();
                // Register the holder before it has a message to recall, with a deadline after this
                // sleep.
                $deadline = (int) ($this->time() + ($this->visibility + self::SLICE) * 1000);
                [, $item, $closed, $wanted] = $this->together(
                    ['ZADD', $this->consumers, $deadline, $consumer],
                    ['LMOVE', $this->items, $held, 'LEFT', 'RIGHT'],
                    ['EXISTS', $this->closed],
                    ['EXISTS', $this->wanted],
                );
                if ($item === null) {
                    $closed && throw new ChannelClosed();
                    $left = $until - self::now();
                    if ($left <= 0) {
                        break;
                    }
                    $slice = max(0.001, min($left, self::SLICE));
                    $words = ['BLMOVE', $this->items, $held, 'LEFT', 'RIGHT', $slice];
                    $item = $this->connection->execute($words, $slice);
                }
                if ($item === null) {
                    continue;
                }
                $wanted && $this->wakeProducer();
                $this->expectReadable($item, fn () => $this->end($consumer, $item, true));
                $received = $this->received($item, false);
                if ($received !== null) {
                    return new Delivery($received, fn (bool $goesBack) => $this->end($consumer, $item, $goesBack));
                }
                $this->end($consumer, $item, false);
            }
        } catch (ChannelClosed $closed) {
            $this->run('ZREM', $this->consumers, $consumer);
            throw $closed;
        }
        $this->run('ZREM', $this->consumers, $consumer);
        return null;
    }

    /** Refuses a pickle, which only Python reads, and puts it back. */
    private function expectReadable(string $item, \Closure $putBack): void
    {
        if (Item::isPickle($item)) {
            $putBack();
            throw new ServerException('WRONGTYPE expected bytes, text or an array, got a pickle, which only Python reads; '
                . 'receive it in Python');
        }
    }

    /** Returns the message of an item, or null if its separately stored value has expired. */
    private function received(string $item, bool $takes): ?Received
    {
        $key = $this->objectKey($item);
        if ($key === null) {
            return Item::read($item);
        }
        $whole = $this->run('GET', $key);
        $takes && $this->run('DEL', $key);
        return $whole === null ? null : Item::read($whole);
    }

    private function objectKey(string $item): ?string
    {
        return Item::isName($item) ? "$this->items:object:" . substr($item, 1) : null;
    }

    private function end(string $consumer, string $item, bool $goesBack): bool
    {
        $held = $this->held . $consumer;
        [$ended] = $this->together(
            $goesBack ? ['LMOVE', $held, $this->items, 'RIGHT', 'LEFT'] : ['LREM', $held, 1, $item],
            ['ZREM', $this->consumers, $consumer],
        );
        $key = $this->objectKey($item);
        if ($ended && !$goesBack && $key !== null) {
            $this->run('DEL', $key);
        }
        return (bool) $ended;
    }

    /** Wakes a producer. */
    private function wakeProducer(): void
    {
        $this->together(
            ['RPUSH', $this->room, '1'],
            ['LTRIM', $this->room, 0, self::TOKENS - 1],
            ['PEXPIRE', $this->room, self::WANTED],
        );
    }

    /** Wakes waiting consumers, so that they notice that the channel is closed. */
    private function wakeAll(): void
    {
        $this->together(['DEL', $this->wake], ['RPUSH', $this->wake, '1'], ['PEXPIRE', $this->wake, 10_000]);
    }

    private function recallAtTimes(): void
    {
        if (self::now() - $this->recalled < self::RECALL) {
            return;
        }
        $this->recalled = self::now();
        if (!$this->run('EXISTS', $this->consumers)) {
            return;
        }
        $now = (int) $this->time();
        foreach ($this->run('ZRANGEBYSCORE', $this->consumers, '-inf', "($now") as $consumer) {
            $this->recall($consumer, $now);
        }
    }

    /** Returns the messages of a consumer past its deadline to the channel. */
    private function recall(string $consumer, int $now): void
    {
        $held = $this->held . $consumer;
        // If another client returns the messages first, or the hold ends, the transaction does nothing.
        $this->client->transaction(function (Pipeline $queue, Client $client) use ($held, $consumer, $now): void {
            $deadline = $client->zScore($this->consumers, $consumer);
            if ($deadline === null || $deadline >= $now) {
                return;
            }
            for ($count = $client->lLen($held); $count > 0; $count--) {
                $queue->lMove($held, $this->items, 'RIGHT', 'LEFT');
            }
            $queue->zRem($this->consumers, $consumer);
        }, [$held]);
    }

    public function length(): int
    {
        return $this->run('LLEN', $this->items);
    }

    public function isClosed(): bool
    {
        return (bool) $this->run('EXISTS', $this->closed);
    }

    public function close(): void
    {
        $this->run('SET', $this->closed, '1');
        $this->wakeAll();
    }

    public function delete(): void
    {
        $lists = [$this->items];
        foreach ($this->run('ZRANGE', $this->consumers, 0, -1) as $consumer) {
            $lists[] = $this->held . $consumer;
        }
        foreach ($lists as $list) {
            while (($items = $this->run('LPOP', $list, 1000)) !== null && $items !== []) {
                $keys = array_filter(array_map($this->objectKey(...), $items));
                $keys === [] || $this->run('DEL', ...$keys);
            }
        }
        $this->run('DEL', $this->closed, $this->consumers, $this->wake);
    }

    private function run(string|int|float ...$words): mixed
    {
        return $this->connection->execute($words);
    }

    /** Removes the first item of the first list that has one, waiting up to `$seconds` for it. */
    private function pop(float $seconds, string ...$lists): ?array
    {
        $seconds = max(0.001, $seconds);
        return $this->connection->execute(['BLPOP', ...$lists, $seconds], $seconds);
    }

    /** Runs commands atomically. */
    private function together(array ...$commands): array
    {
        $replies = $this->connection->transaction($commands) ?? [];
        foreach ($replies as $reply) {
            if ($reply instanceof ServerException) {
                throw $reply;
            }
        }
        return $replies;
    }

    /** Returns the server's time in milliseconds. */
    private function time(): float
    {
        if ($this->offset === null) {
            [$seconds, $micros] = $this->run('TIME');
            $this->offset = (int) $seconds + (int) $micros / 1e6 - microtime(true);
        }
        return (microtime(true) + $this->offset) * 1000;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    private static function until(?float $timeout): float
    {
        return match ($timeout) {
            null => INF,
            0.0 => -INF,
            default => self::now() + $timeout,
        };
    }
}
