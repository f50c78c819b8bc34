<?php

declare(strict_types=1);

namespace Undercroft\Tests;

use PHPUnit\Framework\TestCase;
use Undercroft\Client;

/**
 * A test that runs on the engine that the environment variable UNDERCROFT_ENGINE selects:
 *
 * - `redis`, `redis3`: pure PHP on a Redis server, with RESP2 and RESP3.
 * - `served`: pure PHP on `undercroft serve`, over a Unix socket.
 * - `native`: the extension's connection to a Redis server.
 * - `embedded`: the extension's store.
 */
abstract class EngineCase extends TestCase
{
    private static ?string $url = null;

    protected Client $client;

    protected static function engine(): string
    {
        return getenv('UNDERCROFT_ENGINE') ?: 'redis';
    }

    protected static function url(): string
    {
        return self::$url ??= match (self::engine()) {
            'redis', 'redis3', 'native' => 'tcp://127.0.0.1:' . Servers::redis()[0],
            'served' => 'unix://' . Servers::undercroft()[1],
            'embedded' => 'undercroft://' . Servers::store(),
        };
    }

    /** @param array<string, mixed> $options */
    public static function connect(array $options = []): Client
    {
        return new Client(self::url(), $options + [
            'native' => self::engine() === 'native',
            'protocol' => self::engine() === 'redis3' ? 3 : 2,
        ]);
    }

    protected function setUp(): void
    {
        $this->client = self::connect();
        $this->client->flushAll();
    }
}
