<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

use Undercroft\ArgumentException;
use Undercroft\Cache\Pool;
use Undercroft\Cache\SimpleCache;
use Undercroft\Cache\SymfonyAdapter;
use Undercroft\Client;
use Undercroft\Tests\EngineCase;

require_once '/usr/share/php/Symfony/Component/Cache/autoload.php';

/**
 * Tests what the php-cache suites do not cover: other programs' keys, clients with a prefix, and
 * Symfony's adapter.
 */
final class CachesTest extends EngineCase
{
    public function testClearKeepsKeysWithoutThePrefix(): void
    {
        $client = self::connect(['prefix' => 'p*:']);
        $this->client->mSet(['cache:x' => 1, 'p*:other' => 1, 'pX:cache:x' => 1]);
        $cache = new SimpleCache($client, 'json');
        $cache->setMultiple(array_fill(0, 2500, 'v'));
        self::assertSame(2503, $this->client->dbSize());
        self::assertTrue($cache->clear());
        self::assertSame(3, $this->client->dbSize());
        self::assertTrue($cache->set('gone', 1, -1));
        self::assertFalse($cache->has('gone'));
        $this->expectException(ArgumentException::class);
        new Pool($client, 'json', '');
    }

    public function testACacheThatIsDownMissesAndStoresNothing(): void
    {
        $down = new Client('tcp://127.0.0.1:1', ['native' => self::engine() === 'native']);
        $simple = new SimpleCache($down, 'php');
        self::assertSame('default', $simple->get('k', 'default'));
        self::assertSame(['k' => 'default'], $simple->getMultiple(['k'], 'default'));
        $pool = new Pool($down, 'php');
        $item = $pool->getItem('k');
        self::assertFalse($item->isHit());
        self::assertTrue($pool->saveDeferred($item->set(1)));
        self::assertCount(2, [...$pool->getItems(['k2', 'k3'])]);
        self::assertSame(array_fill(0, 12, false), [
            $simple->set('k', 1), $simple->setMultiple(['k' => 1]), $simple->has('k'), $simple->delete('k'),
            $simple->deleteMultiple(['k']), $simple->clear(), $pool->commit(), $pool->save($item), $pool->hasItem('k'),
            $pool->deleteItem('k'), $pool->deleteItems(['k']), $pool->clear(),
        ]);
    }

    public function testAnUnreadableValueIsAMiss(): void
    {
        foreach (['php' => 'O:9:"Undefined', 'json' => '{"half":'] as $serializer => $text) {
            $cache = new SimpleCache($this->client, $serializer);
            $cache->set('good', [1]);
            $this->client->set('cache:bad', $text);
            $this->client->rPush('cache:list', 'of another type');
            self::assertSame(['bad' => 'd', 'good' => [1], 'list' => 'd'],
                $cache->getMultiple(['bad', 'good', 'list'], 'd'));
            self::assertFalse((new Pool($this->client, $serializer))->getItem('bad')->isHit());
            $this->client->flushAll();
        }
        // A value that cannot be serialized does not prevent the other values from being stored.
        $cache = new SimpleCache($this->client, 'php');
        self::assertFalse($cache->setMultiple(['a' => 1, 'b' => static fn () => 1, 'c' => 3]));
        self::assertSame(['a' => 1, 'b' => null, 'c' => 3], $cache->getMultiple(['a', 'b', 'c']));
    }

    public function testTimesToLive(): void
    {
        $cache = new SimpleCache($this->client, 'php');
        $pool = new Pool($this->client, 'php');
        $symfony = new SymfonyAdapter($this->client, 'app');
        $far = new \DateTimeImmutable('+200000 years');
        foreach ([PHP_INT_MAX, intdiv(PHP_INT_MAX, 1000), new \DateInterval('P200000Y')] as $ttl) {
            self::assertTrue($cache->set('k', 1, $ttl));
            self::assertTrue($cache->setMultiple(['l' => 1], $ttl));
            self::assertTrue($pool->save($pool->getItem('m')->set(1)->expiresAfter($ttl)));
            self::assertTrue($pool->save($pool->getItem('n')->set(1)->expiresAt($far)));
            // Symfony itself adds the current time to the lifetime, which overflows for
            // PHP_INT_MAX.
            $lifetime = $ttl === PHP_INT_MAX ? intdiv($ttl, 4) : $ttl;
            self::assertTrue($symfony->save($symfony->getItem('o')->set(1)->expiresAfter($lifetime)));
            self::assertSame([1, 1, 1, 1], [$cache->get('k'), $cache->get('l'), $cache->get('m'), $cache->get('n')]);
            self::assertTrue($symfony->hasItem('o'));
        }
        foreach ([PHP_INT_MIN, -1, 0] as $ttl) {
            self::assertTrue($cache->set('k', 1, $ttl));
            self::assertFalse($cache->has('k'));
        }
        self::assertTrue($cache->set('k', 1, 100));
        self::assertGreaterThan(98, $this->client->ttl('cache:k'));
    }

    public function testSymfony(): void
    {
        $cache = new SymfonyAdapter($this->client, 'app', 60);
        $item = $cache->getItem('k');
        self::assertFalse($item->isHit());
        self::assertTrue($cache->save($item->set(['a' => new \ArrayObject([1])])->expiresAfter(50)));
        self::assertEquals(['a' => new \ArrayObject([1])], $cache->getItem('k')->get());
        self::assertSame(50, $this->client->ttl($this->client->keys('*')[0]));
        $calls = 0;
        for ($turn = 0; $turn < 3; $turn++) {
            self::assertSame('made', $cache->get('c', static function () use (&$calls): string {
                $calls++;
                return 'made';
            }));
        }
        self::assertSame(1, $calls);
        self::assertTrue($cache->hasItem('c'));
        self::assertTrue($cache->deleteItem('c'));
        self::assertFalse($cache->hasItem('c'));
        $this->client->set('other', 1);
        self::assertTrue($cache->clear());
        self::assertFalse($cache->hasItem('k'));
        self::assertSame('1', $this->client->get('other'));
    }
}
