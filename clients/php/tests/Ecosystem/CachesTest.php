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

/** What the suites of php-cache do not ask: keys of others, programs with a prefix, Symfony's adapter. */
final class CachesTest extends EngineCase
{
    public function testClearLeavesKeysOfOthers(): void
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
