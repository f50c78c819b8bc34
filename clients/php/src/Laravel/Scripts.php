<?php

declare(strict_types=1);

namespace Undercroft\Laravel;

use Illuminate\Cache\LuaScripts as CacheScripts;
use Illuminate\Queue\LuaScripts as QueueScripts;
use Illuminate\Redis\Limiters\ConcurrencyLimiter;
use Illuminate\Redis\Limiters\DurationLimiter;
use Undercroft\Client;
use Undercroft\Pipeline;

/**
 * What Laravel's scripts in Lua do, for stores that have no Lua: as transactions that watch what they read. A script is
 * told by its text, which is asked of the Laravel that is there, so that another version's is never mistaken.
 */
final class Scripts
{
    private const ADD = "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";

    /** How often a transaction runs again where others change what it read. */
    private const TRIES = 1000;

    /** @var array<string, string> method by the script's SHA-1 */
    private static array $known = [];

    /**
     * @param list<mixed> $parameters of eval: the script, the number of keys, keys and arguments
     *
     * @return mixed null where the script is not known
     */
    public static function run(Client $client, array $parameters): mixed
    {
        [$script, $count] = $parameters;
        $method = self::known()[sha1($script)] ?? null;
        if ($method === null) {
            return null;
        }
        $rest = array_slice($parameters, 2);
        return self::$method($client, array_slice($rest, 0, (int) $count), array_slice($rest, (int) $count));
    }

    /** @return array<string, string> */
    private static function known(): array
    {
        if (self::$known === []) {
            $texts = ['add' => self::ADD];
            if (class_exists(CacheScripts::class)) {
                $texts['release'] = CacheScripts::releaseLock();
            }
            if (class_exists(QueueScripts::class)) {
                $texts += ['size' => QueueScripts::size(), 'push' => QueueScripts::push(), 'pop' => QueueScripts::pop(),
                    'later' => QueueScripts::release(), 'migrate' => QueueScripts::migrateExpiredJobs()];
                $texts += method_exists(QueueScripts::class, 'clear') ? ['clear' => QueueScripts::clear()] : [];
            }
            $texts['limit'] = self::hidden(DurationLimiter::class, 'luaScript');
            $texts['limited'] = self::hidden(DurationLimiter::class, 'tooManyAttemptsLuaScript');
            $texts['slot'] = self::hidden(ConcurrencyLimiter::class, 'lockScript');
            foreach ($texts as $method => $text) {
                self::$known[sha1($text)] = $method;
            }
            self::$known[sha1(self::hidden(ConcurrencyLimiter::class, 'releaseScript'))] = 'release';
        }
        return self::$known;
    }

    /** The text that a protected method returns; '' where there is none. */
    private static function hidden(string $class, string $method): string
    {
        if (!method_exists($class, $method)) {
            return '';
        }
        $object = (new \ReflectionClass($class))->newInstanceWithoutConstructor();
        return (fn (): string => $this->$method())->call($object);
    }

    /**
     * Reads and then changes, all at one moment: the function reads, queues what changes, and returns what it makes of
     * the results.
     *
     * @param list<string> $watch
     * @param callable(Pipeline): callable(list<mixed>): mixed $body
     */
    private static function atomic(Client $client, array $watch, callable $body): mixed
    {
        for ($try = 0; $try < self::TRIES; $try++) {
            $finish = null;
            $results = $client->transaction(static function (Pipeline $queue) use ($body, &$finish): void {
                $finish = $body($queue);
            }, watch: $watch);
            if ($results !== null) {
                return $finish($results);
            }
        }
        throw new \RuntimeException('others changed ' . implode(', ', $watch) . ' all the time');
    }

    private static function add(Client $client, array $keys, array $arguments): bool
    {
        return $client->set($keys[0], $arguments[0], ['nx', 'ex' => $arguments[1]]);
    }

    private static function release(Client $client, array $keys, array $arguments): int
    {
        $body = static function (Pipeline $queue) use ($client, $keys, $arguments): callable {
            $client->get($keys[0]) === (string) $arguments[0] && $queue->del($keys[0]);
            return static fn (array $results): int => $results[0] ?? 0;
        };
        return self::atomic($client, [$keys[0]], $body);
    }

    private static function size(Client $client, array $keys): int
    {
        return array_sum($client->transaction(static fn (Pipeline $queue) => $queue->lLen($keys[0])->zCard($keys[1])
            ->zCard($keys[2])));
    }

    private static function push(Client $client, array $keys, array $arguments): bool
    {
        $client->transaction(static fn (Pipeline $queue) => $queue->rPush($keys[0], $arguments[0])->rPush($keys[1], 1));
        return true;
    }

    /** @return array{string|null, string|null} the job as it was, and as it is reserved */
    private static function pop(Client $client, array $keys, array $arguments): array
    {
        $body = static function (Pipeline $queue) use ($client, $keys, $arguments): callable {
            $job = $client->lIndex($keys[0], 0);
            $reserved = null;
            if ($job !== null) {
                $decoded = json_decode($job, false, 512, JSON_THROW_ON_ERROR);
                $decoded->attempts++;
                $reserved = json_encode($decoded, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION);
                $queue->lPop($keys[0])->zAdd($keys[1], [$reserved => $arguments[0]])->lPop($keys[2]);
            }
            return static fn (): array => [$job, $reserved];
        };
        return self::atomic($client, [$keys[0]], $body);
    }

    private static function later(Client $client, array $keys, array $arguments): bool
    {
        $client->transaction(static fn (Pipeline $queue) => $queue->zRem($keys[1], $arguments[0])
            ->zAdd($keys[0], [$arguments[0] => $arguments[1]]));
        return true;
    }

    /** @return list<string> */
    private static function migrate(Client $client, array $keys, array $arguments): array
    {
        $body = static function (Pipeline $queue) use ($client, $keys, $arguments): callable {
            $jobs = $client->zRangeByScore($keys[0], '-inf', $arguments[0]);
            if ($jobs !== []) {
                $queue->zRemRangeByRank($keys[0], 0, count($jobs) - 1)->rPush($keys[1], $jobs)
                    ->rPush($keys[2], array_fill(0, count($jobs), 1));
            }
            return static fn (): array => $jobs;
        };
        return self::atomic($client, [$keys[0]], $body);
    }

    private static function clear(Client $client, array $keys): int
    {
        $results = $client->transaction(static fn (Pipeline $queue) => $queue->lLen($keys[0])->zCard($keys[1])
            ->zCard($keys[2])->del($keys));
        return $results[0] + $results[1] + $results[2];
    }

    /** @return array{int|bool, string|int, int} whether it is allowed, when the time is over, how many are left */
    private static function limit(Client $client, array $keys, array $arguments): array
    {
        [$key, [$now, $start, $decay, $most]] = [$keys[0], $arguments];
        $body = static function (Pipeline $queue) use ($client, $key, $now, $start, $decay, $most): callable {
            $state = $client->hGetAll($key);
            if ($state !== [] && $now >= $state['start'] && $now <= $state['end']) {
                $queue->hIncrBy($key, 'count', 1);
                return static fn (array $results): array => [$results[0] <= $most, $state['end'], $most - $results[0]];
            }
            $queue->hSet($key, ['start' => $start, 'end' => $start + $decay, 'count' => 1])->expire($key, 2 * $decay);
            return static fn (): array => [1, $start + $decay, $most - 1];
        };
        return self::atomic($client, [$keys[0]], $body);
    }

    /** @return array{string|int, int} when the time is over, and how many are left */
    private static function limited(Client $client, array $keys, array $arguments): array
    {
        [$now, $start, $decay, $most] = $arguments;
        $state = $client->hGetAll($keys[0]);
        return $state !== [] && $now >= $state['start'] && $now <= $state['end']
            ? [$state['end'], $most - $state['count']]
            : [0, $start + $decay];
    }

    /** The name of the slot that was free; false where none is, which null stands for with Lua. */
    private static function slot(Client $client, array $keys, array $arguments): string|false
    {
        foreach ($keys as $at => $key) {
            if ($client->set($key, $arguments[2], ['nx', 'ex' => $arguments[1]])) {
                return $arguments[0] . ($at + 1);
            }
        }
        return false;
    }
}
