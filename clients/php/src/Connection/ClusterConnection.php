<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;
use Undercroft\Commands\KeyWords;
use Undercroft\ConnectionException;
use Undercroft\ProtocolException;
use Undercroft\Resp\Slot;
use Undercroft\ServerException;
use Undercroft\TimeoutException;

/**
 * A connection to a cluster, which sends each command to the server that owns the hash slot of the
 * command's key.
 *
 * Redirections to moved slots are followed. As in Redis, all keys of a command must be in one slot.
 * MGET, MSET, DEL, UNLINK, EXISTS and TOUCH are exceptions and are split by slot. Commands without
 * keys are sent to any server. KEYS, DBSIZE, FLUSHALL, FLUSHDB and SCRIPT are sent to every server.
 */
final class ClusterConnection implements Connection
{
    /** The maximum number of attempts to run a command that is redirected. */
    private const TRIES = 16;

    /** The pause in microseconds before a retry while a slot is being migrated. */
    private const PAUSE = 20_000;

    /** @var array<string, StreamConnection> the connections to servers, by host:port */
    private array $nodes = [];

    /** @var list<array{int, int, string}> first slot, last slot and owner, sorted by slot */
    private array $ranges = [];

    private ?StreamConnection $listening = null;

    /**
     * @var list<StreamConnection> connections whose server-side state, such as watched keys, must be kept
     */
    private array $pinned = [];

    public function __construct(private readonly Address $address, private readonly Options $options)
    {
    }

    public function execute(array $words, ?float $wait = null): mixed
    {
        $name = strtoupper((string) $words[0]);
        $keys = $this->keys($words);
        if ($keys === []) {
            return $this->keyless($name, $words, $wait);
        }
        $parts = $this->parts($name, $words, $keys);
        if ($parts !== null) {
            return $this->apart($name, $parts, count($keys));
        }
        return $this->atSlot($this->slot($words, $keys), $words, $wait);
    }

    public function pipeline(array $commands): array
    {
        $byNode = $replies = [];
        foreach ($commands as $at => $words) {
            $keys = $this->keys($words);
            if ($keys === [] || $this->parts(strtoupper((string) $words[0]), $words, $keys) !== null) {
                $replies[$at] = null;
                continue;
            }
            $byNode[$this->owner($this->slot($words, $keys))][$at] = $words;
        }
        foreach (array_keys($replies) as $at) {
            $replies[$at] = $this->reply($commands[$at]);
        }
        foreach ($this->together($byNode) as $at => $reply) {
            $isElsewhere = $reply instanceof ServerException
                && in_array($reply->kind(), ['MOVED', 'ASK', 'TRYAGAIN', 'CLUSTERDOWN'], true);
            $replies[$at] = $isElsewhere ? $this->reply($commands[$at]) : $reply;
        }
        ksort($replies);
        return $replies;
    }

    /**
     * Sends commands to all servers before reading any replies, so that the servers work in
     * parallel.
     *
     * @param array<string, array<int, list<mixed>>> $byNode commands by their position in the pipeline
     *
     * @return array<int, mixed> replies by the same positions
     */
    private function together(array $byNode): array
    {
        $replies = [];
        try {
            foreach ($byNode as $node => $own) {
                $this->node($node)->begin($own);
            }
            foreach ($byNode as $node => $own) {
                $replies += array_combine(array_keys($own), $this->node($node)->finish(count($own)));
            }
        } catch (\Throwable $error) {
            // The other servers' replies are still pending and will never be read, so close all
            // connections.
            foreach (array_keys($byNode) as $node) {
                $this->node($node)->close();
            }
            throw $error;
        }
        return $replies;
    }

    public function transaction(array $commands): ?array
    {
        $slots = [];
        foreach ($commands as $words) {
            $keys = $this->keys($words);
            if ($keys !== []) {
                $slots[$this->slot($words, $keys)] = true;
            }
        }
        if (count($slots) > 1) {
            throw new ArgumentException('expected keys of one hash slot in a transaction, got ' . count($slots)
                . ' slots; put the common part of the keys in braces, as in {user:7}:name');
        }
        $node = $this->owner(array_key_first($slots) ?? 0);
        $isWatching = $this->pinned !== [];
        $this->pinned = [];
        for ($try = 1; ; $try++) {
            try {
                return $this->node($node)->transaction($commands);
            } catch (ServerException $error) {
                if ($error->kind() !== 'MOVED' || $try >= self::TRIES) {
                    throw $error;
                }
                $node = $this->moved($error, $node);
                if ($isWatching) {
                    // The slot's new owner does not watch the keys, so report the transaction as if
                    // a watched key had changed.
                    return null;
                }
            }
        }
    }

    public function send(array ...$commands): void
    {
        $this->listening ??= $this->node($this->any())->another();
        $this->listening->send(...$commands);
    }

    public function receive(?float $timeout): mixed
    {
        return $this->listening?->receive($timeout)
            ?? throw new ConnectionException("no connection to $this->address; subscribe before waiting for messages");
    }

    public function another(): Connection
    {
        return new self($this->address, $this->options);
    }

    public function hasMaps(): bool
    {
        return $this->options->protocol === 3;
    }

    public function pin(bool $isPinned): void
    {
        foreach ($this->nodes as $node) {
            $node->pin($isPinned);
        }
        $this->pinned = $isPinned ? array_values($this->nodes) : [];
    }

    public function isPinned(): bool
    {
        foreach ($this->pinned as $node) {
            if (!$node->isPinned()) {
                return false;
            }
        }
        return $this->pinned !== [];
    }

    public function close(): void
    {
        foreach ($this->nodes as $node) {
            $node->close();
        }
        $this->listening?->close();
        $this->nodes = $this->ranges = $this->pinned = [];
        $this->listening = null;
    }

    /** @return list<string> host:port of every server that owns slots */
    public function owners(): array
    {
        $this->ranges === [] && $this->refresh();
        return array_values(array_unique(array_column($this->ranges, 2)));
    }

    /**
     * Returns the connection to one server, for commands about that server alone, such as SCAN and
     * INFO.
     */
    public function node(string $node): StreamConnection
    {
        return $this->nodes[$node]
            ??= new StreamConnection($this->address->at(...Address::hostAndPort($node)), $this->options);
    }

    /**
     * Returns the connection to the server that owns a key, for commands about that server's
     * connections.
     */
    public function nodeOf(string $key): StreamConnection
    {
        return $this->node($this->owner(Slot::of($key)));
    }

    /** @return list<int> */
    private function keys(array $words): array
    {
        return KeyWords::of($words) ?? throw new ArgumentException(
            "the keys of $words[0] are unknown, so its server cannot be chosen; send it to a client of one server");
    }

    private function slot(array $words, array $keys): int
    {
        $slot = Slot::of((string) $words[$keys[0]]);
        foreach ($keys as $at) {
            if (Slot::of((string) $words[$at]) !== $slot) {
                throw new ArgumentException("expected keys of one hash slot, got {$words[$keys[0]]} and $words[$at]; "
                    . 'put the common part of the keys in braces, as in {user:7}:name');
            }
        }
        return $slot;
    }

    private function owner(int $slot): string
    {
        $this->ranges === [] && $this->refresh();
        [$low, $high] = [0, count($this->ranges) - 1];
        while ($low <= $high) {
            $middle = intdiv($low + $high, 2);
            [$from, $to, $node] = $this->ranges[$middle];
            if ($slot < $from) {
                $high = $middle - 1;
            } elseif ($slot > $to) {
                $low = $middle + 1;
            } else {
                return $node;
            }
        }
        // No known server owns the slot. Any server replies with the right redirection or error.
        return $this->any();
    }

    private function any(): string
    {
        $this->ranges === [] && $this->refresh();
        return $this->ranges[0][2] ?? $this->address->nodes[0];
    }

    private function refresh(): void
    {
        $error = null;
        $known = array_column($this->ranges, 2);
        foreach (array_unique([...$this->address->nodes, ...$known, ...array_keys($this->nodes)]) as $node) {
            try {
                $reply = $this->node($node)->execute(['CLUSTER', 'SLOTS']);
            } catch (ConnectionException $error) {
                continue;
            }
            $ranges = [];
            foreach ($reply as [$from, $to, $owner]) {
                $ranges[] = [$from, $to, self::place((string) $owner[0], (string) $owner[1], $node)];
            }
            sort($ranges);
            $this->ranges = $ranges;
            return;
        }
        throw $error ?? new ConnectionException("no server of $this->address replies");
    }

    private function moved(ServerException $error, string $from): string
    {
        $node = self::redirected($error, $from);
        try {
            $this->refresh();
        } catch (ConnectionException) {
            // No server returned the slot table, but the server that the redirection named may
            // still reply.
        }
        return $node;
    }

    /**
     * Returns the server named in a `MOVED slot host:port` or `ASK slot host:port` error. The port
     * follows the last colon.
     */
    private static function redirected(ServerException $error, string $from): string
    {
        $words = explode(' ', $error->getMessage());
        $colon = strrpos($words[2] ?? '', ':');
        if (count($words) !== 3 || $colon === false) {
            throw self::wrongPlace($error->getMessage(), $from);
        }
        return self::place(substr($words[2], 0, $colon), substr($words[2], $colon + 1), $from);
    }

    /**
     * Returns host:port for a host and port that the server at `$from` reported.
     *
     * IPv6 addresses are reported without brackets. A server that does not know its host or
     * preferred name reports '' or '?', which means the host that sent the reply.
     */
    private static function place(string $host, string $port, string $from): string
    {
        try {
            $host = $host === '' || $host === '?' ? Address::hostAndPort($from)[0] : Address::bracketed($host);
            return implode(':', Address::hostAndPort("$host:$port"));
        } catch (ArgumentException) {
            throw self::wrongPlace("$host:$port", $from);
        }
    }

    private static function wrongPlace(string $got, string $from): ProtocolException
    {
        return new ProtocolException("expected the host and the port of a server from $from, got '$got'");
    }

    private function atSlot(int $slot, array $words, ?float $wait): mixed
    {
        $node = $this->owner($slot);
        $isAsked = false;
        for ($try = 1; ; $try++) {
            try {
                if (!$isAsked) {
                    return $this->node($node)->execute($words, $wait);
                }
                $reply = $this->node($node)->pipeline([['ASKING'], $words])[1];
                return $reply instanceof ServerException ? throw $reply : $reply;
            } catch (ServerException $error) {
                $kind = $error->kind();
                if ($try >= self::TRIES || !in_array($kind, ['MOVED', 'ASK', 'TRYAGAIN', 'CLUSTERDOWN'], true)) {
                    throw $error;
                }
                if ($kind === 'MOVED') {
                    [$node, $isAsked] = [$this->moved($error, $node), false];
                } elseif ($kind === 'ASK') {
                    [$node, $isAsked] = [self::redirected($error, $node), true];
                } else {
                    usleep(self::PAUSE);
                    $kind === 'CLUSTERDOWN' && $this->refresh();
                }
            } catch (TimeoutException $error) {
                throw $error;
            } catch (ConnectionException $error) {
                // Another server may own the slots now, so make the next call fetch the slot table
                // again.
                unset($this->nodes[$node]);
                $this->ranges = [];
                throw $error;
            }
        }
    }

    private function keyless(string $name, array $words, ?float $wait): mixed
    {
        $isOfAll = in_array($name, ['KEYS', 'DBSIZE', 'FLUSHALL', 'FLUSHDB', 'SCRIPT'], true);
        if ($name === 'SCAN') {
            throw new ArgumentException("SCAN's cursor is valid on one server only; use scanIterator() for the whole "
                . 'cluster');
        }
        if (!$isOfAll) {
            return $this->node($this->any())->execute($words, $wait);
        }
        $replies = array_map(fn (string $node): mixed => $this->node($node)->execute($words), $this->owners());
        return match ($name) {
            'KEYS' => array_merge(...$replies),
            'DBSIZE' => array_sum($replies),
            default => $replies[0],
        };
    }

    /**
     * @return list<array{list<mixed>, list<int>}>|null commands for one slot each, with their keys' positions
     */
    private function parts(string $name, array $words, array $keys): ?array
    {
        if (count($keys) < 2 || !in_array($name, ['MGET', 'MSET', 'DEL', 'UNLINK', 'EXISTS', 'TOUCH'], true)) {
            return null;
        }
        $parts = [];
        foreach ($keys as $number => $at) {
            $slot = Slot::of((string) $words[$at]);
            $parts[$slot] ??= [[$name], []];
            $parts[$slot][0][] = $words[$at];
            if ($name === 'MSET') {
                $parts[$slot][0][] = $words[$at + 1];
            }
            $parts[$slot][1][] = $number;
        }
        return count($parts) === 1 ? null : array_values($parts);
    }

    private function apart(string $name, array $parts, int $count): mixed
    {
        $replies = $this->pipeline(array_column($parts, 0));
        foreach ($replies as $reply) {
            if ($reply instanceof ServerException) {
                throw $reply;
            }
        }
        if ($name === 'MGET') {
            $values = array_fill(0, $count, null);
            foreach ($parts as $at => [, $numbers]) {
                $values = array_replace($values, array_combine($numbers, $replies[$at]));
            }
            return $values;
        }
        return $name === 'MSET' ? 'OK' : array_sum($replies);
    }

    private function reply(array $words): mixed
    {
        try {
            return $this->execute($words);
        } catch (ServerException $error) {
            return $error;
        }
    }
}
