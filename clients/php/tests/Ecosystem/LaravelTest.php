<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Container\Container;
use Illuminate\Queue\RedisQueue;
use Illuminate\Redis\RedisManager;
use Undercroft\Laravel\Connector;
use Undercroft\Tests\EngineCase;

foreach (['Redis', 'Cache', 'Queue', 'Container', 'Events'] as $part) {
    require_once "/usr/share/php/Illuminate/$part/autoload.php";
}

/**
 * Tests Laravel's cache, locks, rate limiter and queue on this client instead of Predis or
 * phpredis.
 */
final class LaravelTest extends EngineCase
{
    private RedisManager $redis;

    protected function setUp(): void
    {
        parent::setUp();
        $container = new Container();
        $this->redis = new RedisManager($container, 'undercroft', [
            'options' => ['prefix' => 'laravel:', 'native' => self::engine() === 'native'],
            'default' => ['place' => self::url()],
        ]);
        $this->redis->extend('undercroft', fn (): Connector => new Connector());
    }

    public function testCache(): void
    {
        $cache = new Repository(new RedisStore($this->redis, 'cache', 'default'));
        self::assertNull($cache->get('k'));
        self::assertTrue($cache->put('k', ['a' => 1], 60));
        self::assertSame(['a' => 1], $cache->get('k'));
        self::assertSame(60, $this->client->ttl('laravel:cache:k'));
        self::assertTrue($cache->add('once', 'x', 60));
        self::assertFalse($cache->add('once', 'y', 60));
        self::assertSame(5, $cache->increment('n', 5));
        self::assertSame(3, $cache->decrement('n', 2));
        self::assertTrue($cache->putMany(['a' => 1, 'b' => 'two'], 60));
        self::assertEquals(['a' => 1, 'b' => 'two', 'c' => null], $cache->many(['a', 'b', 'c']));
        self::assertTrue($cache->forever('f', 'v'));
        self::assertSame('made', $cache->remember('r', 60, static fn (): string => 'made'));
        self::assertTrue($cache->forget('k'));
        self::assertFalse($cache->has('k'));
        self::assertTrue($cache->tags(['t'])->put('x', 'v', 60));
        self::assertSame('v', $cache->tags(['t'])->get('x'));
        $cache->tags(['t'])->flush();
        self::assertNull($cache->tags(['t'])->get('x'));
    }

    public function testLocksAndLimits(): void
    {
        $store = new RedisStore($this->redis, 'cache', 'default');
        $lock = $store->lock('job', 10);
        self::assertTrue($lock->acquire());
        self::assertFalse($store->lock('job', 10)->acquire());
        self::assertFalse($store->lock('job', 10)->release(), 'only the owner releases a lock');
        self::assertTrue($lock->release());
        self::assertTrue($store->lock('job', 10)->acquire());
        $limiter = new RateLimiter(new Repository($store));
        for ($hit = 1; $hit <= 3; $hit++) {
            self::assertFalse($limiter->tooManyAttempts('login', 3));
            self::assertSame($hit, $limiter->hit('login', 60));
        }
        self::assertTrue($limiter->tooManyAttempts('login', 3));
        $connection = $this->redis->connection('default');
        $passed = 0;
        for ($turn = 0; $turn < 3; $turn++) {
            $connection->throttle('mail')->block(0)->allow(2)->every(60)->then(
                static function () use (&$passed): void {
                    $passed++;
                },
                static fn (): bool => false,
            );
        }
        self::assertSame(2, $passed);
        $inner = null;
        $connection->funnel('one')->block(0)->limit(1)->then(static function () use ($connection, &$inner): void {
            $inner = $connection->funnel('one')->block(0)->limit(1)->then(static fn (): string => 'in',
                static fn (): string => 'full');
        });
        self::assertSame('full', $inner);
    }

    public function testQueue(): void
    {
        $queue = new RedisQueue($this->redis, 'default', 'default', 60);
        $queue->setContainer(new Container());
        self::assertNull($queue->pop());
        $queue->push('Job', ['n' => 1]);
        $queue->later(-1, 'Job', ['n' => 2]);
        self::assertSame(2, $queue->size());
        $job = $queue->pop();
        self::assertSame(1, $job->payload()['data']['n']);
        self::assertSame(1, $job->attempts());
        $job->release(0);
        $second = $queue->pop();
        self::assertNotNull($second);
        $second->delete();
        $third = $queue->pop();
        self::assertEqualsCanonicalizing([1, 2], [$second->payload()['data']['n'], $third->payload()['data']['n']]);
        $third->delete();
        self::assertNull($queue->pop());
        $queue->bulk(['A', 'B']);
        self::assertSame(2, $queue->size());
        self::assertSame(2, $queue->clear('default'));
    }
}
