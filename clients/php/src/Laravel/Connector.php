<?php

declare(strict_types=1);

namespace Undercroft\Laravel;

use Illuminate\Contracts\Redis\Connector as Contract;
use Undercroft\Client;
use Undercroft\Connection\Address;
use Undercroft\Connection\Options;

/**
 * Connects Laravel's Redis component through this client. In a service provider:
 *
 *     Redis::extend('undercroft', fn () => new \Undercroft\Laravel\Connector());
 *
 * In config/database.php, set `'client' => 'undercroft'`. Give each connection a `place`, which is
 * any URL that the client accepts, or `host`, `port`, `path`, `password` and `database` as before.
 * Laravel itself parses a `url` and supports only tcp:// and tls://.
 */
final class Connector implements Contract
{
    public function connect(array $config, array $options): Connection
    {
        return new Connection(new Client(self::place($config), self::options($config + $options)));
    }

    public function connectToCluster(array $config, array $clusterOptions, array $options): Connection
    {
        $nodes = array_map(
            static fn (array $node): string => Address::bracketed($node['host']) . ':' . ($node['port'] ?? 6379),
            $config,
        );
        $first = reset($config) ?: [];
        $login = isset($first['password'])
            ? rawurlencode((string) ($first['username'] ?? '')) . ':' . rawurlencode((string) $first['password']) . '@'
            : '';
        $url = "redis+cluster://$login" . implode(',', $nodes);
        return new Connection(new Client($url, self::options($clusterOptions + $options)));
    }

    private static function place(array $config): string|array
    {
        if (isset($config['place'])) {
            return $config['place'];
        }
        $known = array_flip(['scheme', 'host', 'port', 'path', 'username', 'password', 'database']);
        return array_filter(array_intersect_key($config, $known), static fn (mixed $part): bool => $part !== null);
    }

    /** @return array<string, mixed> */
    private static function options(array $options): array
    {
        $own = array_intersect_key($options, array_flip(['prefix', ...Options::names()]));
        if (isset($options['read_timeout'])) {
            // Laravel uses the option names of phpredis: `timeout` limits connecting, and
            // `read_timeout` limits each reply.
            $own['connect_timeout'] = ($options['timeout'] ?? 0) ?: 5.0;
            $own['timeout'] = $options['read_timeout'];
        }
        return $own;
    }
}
