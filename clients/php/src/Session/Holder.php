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
 * The holder of a session's lock, and a sign of it that ends with its process. The lock names the sign:
 *
 * - `channel`: in a store, a subscription to a channel of this holder alone. A store counts the subscriptions of living
 *   processes only, by locks of the kernel, so that other containers see it as well.
 * - `client`: on a Redis server, the number of the request's connection, and the server that numbered it.
 * - `lease`: on any other server, and for a user that may not list connections. The lock expires soon, and the server
 *   itself renews it, by commands that wait on a second connection. Where that connection ends the server forgets them,
 *   and the lock expires.
 * - none: no command that waits can run here. The lock lasts as long as the handler says.
 */
final class Holder
{
    /** Renews a lock where it is ours. */
    private const RENEW = 'if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end '
        . 'return redis.call("PEXPIRE", KEYS[1], ARGV[2])';

    /** So often a lock is renewed before it would expire. */
    private const RENEWALS = 3;

    /** What the lock holds: a word that no other request has, and the sign. */
    public readonly string $token;

    /** How long the lock lasts, in milliseconds, where it is not renewed. */
    public readonly int $life;

    private readonly bool $isLease;

    /** What ends with the process: the store's subscription, or the connection over which the lock is renewed. */
    private ?Connection $sign = null;

    /**
     * @param float $hold seconds after which the lock ends by itself, whatever the holder does
     * @param float $lease seconds for which a lease outlives its holder
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

    /** What a Redis server calls a connection; null where others could not ask whether it is still there. */
    private static function connection(Connection $server): ?string
    {
        try {
            $replies = $server->pipeline([['CLIENT', 'ID'], ['CLIENT', 'LIST', 'ID', 1], ['INFO', 'server']]);
        } catch (ConnectionException) {
            // A proxy that closes a connection when it does not know a command.
            return null;
        }
        foreach ($replies as $reply) {
            if ($reply instanceof ServerException) {
                return null;
            }
        }
        $run = self::run($replies[2]);
        // Of a store there may be several servers, and programs that map it, of which none knows the others' numbers.
        return $run === '' || str_contains($replies[2], 'undercroft_version:') ? null : "client $replies[0] $run";
    }

    /** Says that the lock is ours from now on; false where it was lost meanwhile. */
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
            // The lock is no list, so a server that knows commands that wait refuses this one at once.
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
            // Such a proxy again. Where the server is down the next command says so.
        }
        $this->end();
        return $this->client->eval(self::RENEW, 1, $this->lock, $this->token, (int) (1000 * $this->hold)) === 1;
    }

    /** Ends the sign. */
    public function end(): void
    {
        $this->sign?->close();
        $this->sign = null;
    }

    /** Whether the holder that a lock names is there, as far as this request can know. */
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
        // Where another server has taken the place of the one that numbered the connection, that ended with it.
        return ($run === '' || self::run($info) === $run) && str_contains($list, "id=$number ");
    }

    private static function server(Client $client, string $lock): Connection
    {
        $connection = $client->connection();
        return $connection instanceof ClusterConnection ? $connection->nodeOf($client->_prefix($lock)) : $connection;
    }

    /** The word by which a server tells its run from every other one; '' where it has none. */
    private static function run(string $info): string
    {
        return preg_match('~^run_id:(\w+)~m', $info, $found) ? $found[1] : '';
    }

    private static function channel(string $word): string
    {
        return "undercroft:session:$word";
    }

    /** A key that is never there: of the same hash slot of a cluster, and with the same beginning, for rules of ACL. */
    private static function never(string $key): string
    {
        return str_contains($key, '{') ? "$key:wait" : substr($key, 0, (int) strrpos($key, ':')) . ":wait{{$key}}";
    }
}
