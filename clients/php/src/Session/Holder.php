<?php

declare(strict_types=1);

namespace Undercroft\Session;

use Undercroft\Client;
use Undercroft\Connection\ClusterConnection;
use Undercroft\Connection\Connection;
use Undercroft\Connection\EmbeddedConnection;
use Undercroft\ConnectionException;
use Undercroft\ServerException;

/**
 * The holder of a session's lock, with a sign of life that ends with the holder's process. The
 * lock's value names the kind of sign:
 *
 * - `channel`: in a store, a subscription to a channel that only this holder uses. A store counts
 *   only the subscriptions of living processes. It detects dead processes through kernel locks,
 *   which also works across containers.
 * - `client`: on a Redis server, the number of the request's connection and the server's run id.
 * - `lease`: on any other server, and for a user that may not list connections. The lock expires
 *   soon, and the server itself renews it with blocking commands that wait on a second connection.
 *   When that connection ends, the server drops the commands and the lock expires.
 * - no sign: the server refuses blocking commands. The lock then lasts for the handler's `hold`
 *   time.
 */
final class Holder
{
    /** A Lua script that renews a lock if this request holds it. */
    private const RENEW = 'if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end '
        . 'return redis.call("PEXPIRE", KEYS[1], ARGV[2])';

    /** The number of times that a lock is renewed within its lease. */
    private const RENEWALS = 3;

    /** The lock's value: a random word that is unique to this request, and the sign of life. */
    public readonly string $token;

    /** The lock's lifetime in milliseconds if it is not renewed. */
    public readonly int $life;

    private readonly bool $isLease;

    /**
     * The connection that ends with the process. It subscribes to the store's channel, or renews
     * the lease.
     */
    private ?Connection $sign = null;

    /**
     * @param float $hold seconds after which the lock expires, even if the holder is alive
     * @param float $lease seconds until the lock expires after its holder's death, if the sign is a
     *     lease
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $lock,
        private readonly float $hold,
        private readonly float $lease,
    ) {
        $word = bin2hex(random_bytes(16));
        $connection = $client->connection();
        if ($connection instanceof EmbeddedConnection) {
            $this->sign = $connection->another();
            $this->sign->send(['SUBSCRIBE', self::channel($word)]);
            $name = 'channel';
        } else {
            $name = self::connection(self::server($client, $lock)) ?? 'lease';
        }
        $this->isLease = $name === 'lease';
        $this->token = "$word $name";
        $this->life = (int) (1000 * ($this->isLease ? min($lease, $hold) : $hold));
    }

    /**
     * Returns a Redis server's id for this connection, or null if other clients could not check the
     * connection by that id.
     */
    private static function connection(Connection $server): ?string
    {
        try {
            $replies = $server->pipeline([['CLIENT', 'ID'], ['CLIENT', 'LIST', 'ID', 1], ['INFO', 'server']]);
        } catch (ConnectionException) {
            // Some proxies close the connection when they receive an unknown command.
            return null;
        }
        foreach ($replies as $reply) {
            if ($reply instanceof ServerException) {
                return null;
            }
        }
        $run = self::run($replies[2]);
        // Several servers and embedded programs may share one store, and each knows only the
        // numbers of its own connections.
        return $run === '' || str_contains($replies[2], 'undercroft_version:') ? null : "client $replies[0] $run";
    }

    /**
     * Starts the lease after the lock was taken. Returns false if the lock was lost in the
     * meantime.
     */
    public function begin(): bool
    {
        if (!$this->isLease) {
            return true;
        }
        $key = $this->client->_prefix($this->lock);
        $pause = round($this->lease / self::RENEWALS, 3);
        $renew = ['EVAL', self::RENEW, 1, $key, $this->token];
        try {
            $this->sign = self::server($this->client, $this->lock)->another();
            // The lock is a string and not a list, so a server that supports blocking commands
            // refuses this BLPOP immediately.
            [$wait, $renewed] = $this->sign->pipeline([['BLPOP', $key, $pause], [...$renew, $this->life]]);
            if ($wait instanceof ServerException && $wait->kind() === 'WRONGTYPE') {
                if ($renewed !== 1) {
                    return false;
                }
                $wait = ['BLPOP', self::never($key), $pause];
                $each = [$wait, [...$renew, $this->life]];
                $this->sign->send(...array_merge(...array_fill(0, (int) ceil($this->hold / $pause), $each)));
                return true;
            }
        } catch (ConnectionException) {
            // A proxy closed the connection because of an unknown command. If the server is down,
            // the next command throws.
        }
        $this->end();
        return $this->client->eval(self::RENEW, 1, $this->lock, $this->token, (int) (1000 * $this->hold)) === 1;
    }

    /** Closes the connection that serves as the sign of life. */
    public function end(): void
    {
        $this->sign?->close();
        $this->sign = null;
    }

    /**
     * Returns whether the holder that a lock names is alive. Also returns true if that cannot be
     * determined.
     */
    public static function isThere(Client $client, string $lock, string $token): bool
    {
        [$word, $kind, $number, $run] = explode(' ', $token) + ['', '', '', ''];
        $connection = $client->connection();
        try {
            if ($kind === 'channel') {
                $reply = $connection->execute(['PUBSUB', 'NUMSUB', self::channel($word)]);
                return !is_array($reply) || end($reply) !== 0;
            }
            if ($kind !== 'client' || $connection instanceof EmbeddedConnection) {
                return true;
            }
            [$info, $list] = self::server($client, $lock)->pipeline([
                ['INFO', 'server'], ['CLIENT', 'LIST', 'ID', $number],
            ]);
        } catch (ServerException) {
            return true;
        }
        if (!is_string($info) || !is_string($list) || self::run($info) === '') {
            return true;
        }
        // If a different server now answers, the holder's connection ended together with the server
        // that numbered the connection.
        return ($run === '' || self::run($info) === $run) && str_contains($list, "id=$number ");
    }

    private static function server(Client $client, string $lock): Connection
    {
        $connection = $client->connection();
        return $connection instanceof ClusterConnection ? $connection->nodeOf($client->_prefix($lock)) : $connection;
    }

    /** Returns the server's run id, or '' if the server reports no run id. */
    private static function run(string $info): string
    {
        return preg_match('~^run_id:(\w+)~m', $info, $found) ? $found[1] : '';
    }

    private static function channel(string $word): string
    {
        return "undercroft:session:$word";
    }

    /**
     * Returns a key that never exists, on which blocking commands can wait. It has the lock's hash
     * slot, for clusters, and the lock's prefix, for ACL rules.
     */
    private static function never(string $key): string
    {
        return str_contains($key, '{') ? "$key:wait" : substr($key, 0, (int) strrpos($key, ':')) . ":wait{{$key}}";
    }
}
