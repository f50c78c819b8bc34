<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Client;
use Undercroft\ServerException;
use Undercroft\Tests\Servers;

/**
 * Runs the same random commands with Predis and with this client, each on a separate database.
 * Replies and data must be equal.
 */
final class PredisTest extends TestCase
{
    private const COMMANDS = [
        'SET k v', 'SET k n', 'GET k', 'GETSET k v', 'APPEND k v', 'STRLEN k', 'INCR k', 'INCRBYFLOAT k f',
        'GETRANGE k n n', 'SETRANGE k 3 v', 'MSET k v k v', 'MGET k k k', 'SETNX k v', 'DEL k k', 'EXISTS k k',
        'TYPE k', 'EXPIRE k 1000', 'PERSIST k', 'RENAME k k', 'RPUSH k v v', 'LPUSH k v', 'LRANGE k n n',
        'LPOP k', 'RPOP k 2', 'LLEN k', 'LREM k n v', 'LINSERT k BEFORE v v', 'LINDEX k n', 'HSET k v v v n',
        'HGET k v', 'HGETALL k', 'HDEL k v', 'HINCRBY k v n', 'HMGET k v v', 'SADD k v v', 'SREM k v',
        'SISMEMBER k v', 'SCARD k', 'SINTERCARD 2 k k', 'ZADD k n v f v', 'ZRANGE k n n WITHSCORES',
        'ZSCORE k v', 'ZINCRBY k f v', 'ZRANK k v', 'ZRANGEBYSCORE k -inf f', 'ZPOPMIN k', 'SETBIT k 9 1',
        'BITCOUNT k', 'PFADD k v v', 'PFCOUNT k', 'NONSENSE k', 'GET', 'SET k v EX f', 'ECHO v',
    ];

    public function testRandomCommands(): void
    {
        if (!is_file('/usr/share/php/Predis/Autoloader.php')) {
            self::markTestSkipped("Debian's php-nrk-predis is not here");
        }
        require_once '/usr/share/php/Predis/Autoloader.php';
        \Predis\Autoloader::register();
        $seed = (int) (getenv('UNDERCROFT_SEED') ?: random_int(1, 1 << 30));
        mt_srand($seed);
        [$port] = Servers::redis();
        $ours = new Client("tcp://127.0.0.1:$port/1", ['native' => false]);
        $theirs = new \Predis\Client("tcp://127.0.0.1:$port?database=2");
        $errors = 0;
        for ($round = 0; $round < 4000; $round++) {
            $words = self::words();
            $expected = $theirs->executeRaw($words, $isError);
            try {
                $got = $ours->execute($words);
                $failed = false;
            } catch (ServerException $error) {
                [$got, $failed] = [$error->getMessage(), true];
                $errors++;
            }
            $text = "UNDERCROFT_SEED=$seed, round $round: " . json_encode($words, JSON_INVALID_UTF8_SUBSTITUTE);
            self::assertSame([$isError, $expected], [$failed, $got], $text);
        }
        self::assertGreaterThan(100, $errors, 'errors are compared, too');
        // Compare pipelines as well.
        for ($round = 0; $round < 20; $round++) {
            $batch = array_map(static fn (): array => self::words(), range(1, 100));
            $expected = array_map(static fn (array $words): mixed => $theirs->executeRaw($words), $batch);
            $pipe = $ours->pipeline();
            array_map($pipe->command(...), $batch);
            $got = array_map(static fn (mixed $reply): mixed => $reply instanceof ServerException
                ? $reply->getMessage()
                : $reply, $pipe->execute(throws: false));
            self::assertSame($expected, $got, "UNDERCROFT_SEED=$seed, batch $round");
        }
        $keys = $ours->keys('*');
        self::assertEqualsCanonicalizing($theirs->keys('*'), $keys);
        foreach ($keys as $key) {
            self::assertSame($theirs->type($key)->getPayload(), $ours->type($key));
        }
    }

    /** @return list<string> */
    private static function words(): array
    {
        $line = self::COMMANDS[mt_rand(0, count(self::COMMANDS) - 1)];
        return array_map(static fn (string $word): string => match ($word) {
            'k' => 'key' . mt_rand(0, 9),
            'v' => ['', 'a', "b\r\n", "\0\xff", '5', str_repeat('x', 3000), "$3\r\nabc\r\n"][mt_rand(0, 6)],
            'n' => (string) mt_rand(-5, 5),
            'f' => (string) (mt_rand(-20, 20) / 4),
            default => $word,
        }, explode(' ', $line));
    }
}
