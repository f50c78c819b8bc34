<?php

declare(strict_types=1);

namespace Undercroft\Tests\Commands;

use Undercroft\ArgumentException;
use Undercroft\Command;
use Undercroft\ConnectionException;
use Undercroft\Script;
use Undercroft\SerializerException;
use Undercroft\ServerException;
use Undercroft\Tests\EngineCase;

/** Tests client features that involve more than a single command. */
final class ClientTest extends EngineCase
{
    public function testPipelines(): void
    {
        $c = $this->client;
        $results = $c->pipeline(static function ($pipe): void {
            $pipe->set('a', 1)->incr('a')->get('a');
            $pipe->zAdd('z', ['m' => 1])->zRange('z', 0, -1, ['withscores' => true])->hGetAll('none');
        });
        self::assertSame([true, 2, '2', 1, ['m' => 1.0], []], $results);
        self::assertSame(['2', null], $c->pipeline()->get('a')->get('b')->execute());
        self::assertSame([], $c->pipeline()->execute());
        $many = $c->pipeline(static function ($pipe): void {
            for ($i = 0; $i < 10_000; $i++) {
                $pipe->command(['SET', "k$i", str_repeat('v', $i % 100)]);
                $pipe->get("k$i");
            }
        });
        self::assertCount(20_000, $many);
        self::assertSame(str_repeat('v', 99), $many[2 * 9_999 + 1]);
        $pipe = $c->pipeline()->set('a', 'x')->incr('a')->set('b', 'y');
        [$first, $error, $last] = $pipe->execute(throws: false);
        self::assertSame([true, true], [$first, $last]);
        self::assertInstanceOf(ServerException::class, $error);
        try {
            $c->pipeline()->incr('a')->set('b', 'z')->execute();
            self::fail('expected an error');
        } catch (ServerException) {
            self::assertSame('z', $c->get('b'), 'the command after an error has run');
        }
    }

    public function testTransactions(): void
    {
        $c = $this->client;
        self::assertSame([true, 6], $c->transaction(static fn ($queue) => $queue->set('a', 5)->incr('a')));
        self::assertSame(['6', 1, ['f' => '1']], $c->multi()->get('a')->hSet('h', ['f' => 1])->hGetAll('h')->exec());
        // Another client changes the watched key during the first attempt.
        $other = self::connect();
        $tries = 0;
        $results = $c->transaction(static function ($queue, $client) use ($other, &$tries): void {
            $value = (int) $client->get('a');
            $tries++ || $other->set('a', 100);
            $queue->set('a', $value + 1);
        }, watch: 'a', retry: 2);
        self::assertSame([true], $results);
        self::assertSame([2, '101'], [$tries, $c->get('a')]);
        self::assertNull($c->transaction(static function ($queue) use ($other): void {
            $other->incr('a');
            $queue->set('a', 'lost');
        }, watch: ['a']));
        self::assertSame('102', $c->get('a'));
        $c->watch('a');
        self::assertTrue($c->unwatch());
        try {
            $c->transaction(static fn ($queue) => $queue->set('b', 1)->command(['SET', 'b']));
            self::fail('expected an error');
        } catch (ServerException $error) {
            self::assertStringContainsString('wrong number of arguments', $error->getMessage());
        }
        self::assertNull($c->get('b'), 'nothing of a refused transaction runs');
        $mixed = $c->transaction(static fn ($queue) => $queue->set('t', 'x')->incr('t')->get('t'), throws: false);
        self::assertInstanceOf(ServerException::class, $mixed[1]);
        self::assertSame('x', $mixed[2]);
        self::assertSame([], $c->transaction(static fn () => null));
    }

    public function testANestedTransactionLeavesTheOuterWatch(): void
    {
        $c = $this->client;
        $other = self::connect();
        $c->set('a', 1);
        $inner = null;
        $ran = $c->transaction(function ($queue, $client) use ($other, &$inner): void {
            $client->get('a');
            $inner = [
                $client->transaction(static fn ($own) => $own->set('b', 1)),
                $client->transaction(static fn ($own, $client) => $own->set('c', $client->get('b')), watch: 'b'),
            ];
            foreach ([
                static fn () => $client->transaction()->set('d', 1)->execute(),
                static fn () => $client->multi()->set('d', 1)->exec(),
                static fn () => $client->unwatch(),
                static fn () => $client->execute(['unwatch']),
            ] as $call) {
                try {
                    $call();
                    self::fail('expected an error');
                } catch (ArgumentException $error) {
                    self::assertStringContainsString('would end the watch', $error->getMessage());
                }
            }
            $other->set('a', 'of another');
            $queue->set('a', 'lost');
        }, watch: 'a');
        self::assertSame([[[true], [true]], null], [$inner, $ran]);
        self::assertSame(['of another', '1', '1', null], $c->mGet('a', 'b', 'c', 'd'));
        // While no callback is running, watch() and transactions work as usual.
        $c->watch('a');
        self::assertSame([true], $c->transaction()->set('a', 2)->execute());
        $c->watch('a');
        self::assertSame([3], $c->transaction(static fn ($queue) => $queue->incr('a')));
        self::assertTrue($c->unwatch());
    }

    public function testTransactionsOfFibers(): void
    {
        $c = $this->client;
        $c->mSet(['a' => 1, 'b' => 1]);
        $raise = static fn (string $key): \Fiber => new \Fiber(static fn () => $c->transaction(
            static function ($queue, $client) use ($key): void {
                $value = (int) $client->get($key);
                \Fiber::suspend();
                $queue->set($key, $value + 1);
            }, watch: $key));
        [$first, $second] = [$raise('a'), $raise('b')];
        $first->start();
        $second->start();
        self::connect()->set('a', 'of another');
        $second->resume();
        self::assertSame([true], $second->getReturn());
        $first->resume();
        self::assertNull($first->getReturn(), 'the watch of the first fiber lasted');
        self::assertSame(['of another', '2'], $c->mGet('a', 'b'));
        // One fiber calls watch(), and another fiber runs a transaction.
        $watching = new \Fiber(static function () use ($c): ?array {
            $c->watch('a');
            \Fiber::suspend();
            return $c->transaction()->set('a', 'lost')->execute();
        });
        $watching->start();
        self::assertSame([3], $c->transaction(static fn ($queue) => $queue->incr('b')));
        try {
            $c->watch('b');
            self::fail('expected an error');
        } catch (ArgumentException) {
        }
        self::connect()->set('a', 'of another one');
        $watching->resume();
        self::assertNull($watching->getReturn());
        self::assertTrue($c->watch('b'));
        self::assertTrue($c->unwatch());
    }

    public function testATransactionWhoseConnectionWasClosedDoesNotRun(): void
    {
        $c = $this->client;
        try {
            $c->transaction(static function ($queue, $client): void {
                $client->close();
                $queue->set('a', 'lost');
            }, watch: 'a');
            self::fail('expected an error');
        } catch (ConnectionException $error) {
            self::assertStringContainsString('did not run', $error->getMessage());
        }
        self::assertNull($c->get('a'));
    }

    /** @return iterable<string, array{mixed}> */
    public function words(): iterable
    {
        foreach (['true' => true, 'false' => false, 'null' => null, 'an object' => new \stdClass()] as $name => $word) {
            yield $name => [$word];
        }
    }

    /** @dataProvider words */
    public function testWordsOfOtherTypesAreRefused(mixed $word): void
    {
        $c = $this->client;
        foreach ([
            static fn () => $c->set('k', $word),
            static fn () => $c->rPush('k', $word),
            static fn () => $c->execute(['SET', 'k', $word]),
            static fn () => $c->pipeline()->set('other', 1)->set('k', $word)->execute(),
            static fn () => $c->transaction(static fn ($queue) => $queue->set('other', 1)->set('k', $word)),
        ] as $call) {
            try {
                $call();
                self::fail('expected an error');
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected a string or a number', $error->getMessage());
            }
        }
        self::assertSame(0, $c->dbSize(), 'nothing was sent');
    }

    public function testPrefix(): void
    {
        $c = self::connect(['prefix' => 'app*:']);
        $c->mSet(['a' => 1, 'b' => 2]);
        self::assertEqualsCanonicalizing(['app*:a', 'app*:b'], $c->keys('?'));
        $c->sAdd('s', 'm');
        $c->rPush('l', 2, 1);
        $c->zAdd('z', ['m' => 1]);
        self::assertSame('1', $this->client->get('app*:a'));
        $this->client->set('appX:other', 1);
        self::assertEqualsCanonicalizing(['app*:a'], $c->keys('a'));
        self::assertEqualsCanonicalizing(['app*:a', 'app*:b'], iterator_to_array($c->scanIterator('[ab]'), false));
        self::assertCount(5, iterator_to_array($c->scanIterator(), false));
        self::assertSame(1, $c->sUnionStore('t', ['s']));
        self::assertSame(1, $c->zUnionStore('y', ['z']));
        self::assertTrue($c->rename('b', 'c'));
        self::assertSame(['app*:l', '2'], $c->blPop('l', 1));
        self::assertSame(1, $c->sort('l', ['store' => 'sorted']));
        self::assertSame(['1'], $this->client->lRange('app*:sorted', 0, -1));
        self::assertSame([['1'], true], $c->transaction(static fn ($q) => $q->mGet('a')->expire('a', 10)));
        self::assertSame(3, $c->del('a', 'c', ['s']));
        self::assertSame('raw', $c->execute(['ECHO', 'raw']));
        $this->expectException(ArgumentException::class);
        $c->nobodyKnows('a');
    }

    /** @return iterable<string, array{string}> */
    public function serializers(): iterable
    {
        foreach (['json' => null, 'php' => null, 'igbinary' => 'igbinary', 'msgpack' => 'msgpack'] as $name => $needs) {
            if ($needs === null || extension_loaded($needs)) {
                yield $name => [$name];
            }
        }
    }

    /** @dataProvider serializers */
    public function testSerializers(string $name): void
    {
        $c = self::connect(['serializer' => $name]);
        foreach (['text', '5', '', 5, -7, 1.5, 2.0, true, false, null, [1, 'a' => [2]], []] as $value) {
            $c->set('k', $value);
            self::assertSame($value, $c->get('k'), "$name of " . json_encode($value));
        }
        self::assertNull($c->get('none'));
        $c->set('n', 5);
        self::assertSame(6, $c->incr('n'));
        self::assertSame(6, $c->get('n'));
        $c->hSet('h', ['a' => [1], 'b' => 2]);
        self::assertSame(['a' => [1], 'b' => 2], $c->hGetAll('h'));
        self::assertSame([[1], null], $c->hmGet('h', ['a', 'none']));
        $c->rPush('l', 'x', [1]);
        self::assertSame(['x', [1]], $c->lRange('l', 0, -1));
        self::assertSame(['l', 'x'], $c->blPop('l', 1));
        $c->sAdd('s', 'm', 1);
        self::assertTrue($c->sIsMember('s', 'm'));
        $c->zAdd('z', ['m' => 2]);
        self::assertSame(['m' => 2.0], $c->zRange('z', 0, -1, ['withscores']));
        self::assertSame(2.0, $c->zScore('z', 'm'));
        self::assertSame([true, [1]], $c->pipeline(static fn ($p) => $p->set('p', [1])->get('p')));
        $this->client->set('k', "\xff not of a serializer");
        $this->expectException(SerializerException::class);
        $c->get('k');
    }

    public function testUnknownOptionsAndSerializersAreRefused(): void
    {
        $wrong = [['serialiser' => 'json'], ['serializer' => 'yaml'], ['protocol' => 4], ['timeout' => -1]];
        foreach ($wrong as $options) {
            try {
                self::connect($options);
                self::fail('expected an error of ' . json_encode($options));
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected', $error->getMessage());
            }
        }
    }

    public function testScriptsAndCustomCommands(): void
    {
        $bounded = new Script('local n = redis.call("INCRBY", KEYS[1], ARGV[1]) '
            . 'if n > tonumber(ARGV[2]) then redis.call("SET", KEYS[1], ARGV[2]) n = tonumber(ARGV[2]) end '
            . 'return n', 1);
        $c = self::connect(['prefix' => 'p:', 'commands' => ['bounded' => $bounded]]);
        $c->set('a', 1);
        self::assertSame('1', $c->eval('return redis.call("GET", KEYS[1])', ['a', 'x'], 1));
        self::assertSame('1', $c->eval('return redis.call("GET", KEYS[1])', 1, 'a', 'x'));
        self::assertSame(4, $c->bounded('n', 4, 5));
        self::assertSame(5, $c->bounded('n', 4, 5));
        self::assertSame('5', $this->client->get('p:n'));
        self::assertSame([5, '5'], $c->pipeline(static fn ($p) => $p->bounded('n', 4, 5)->get('n')));
        self::assertSame([5], $c->transaction(static fn ($p) => $p->bounded('n', 4, 5)));
        $c->register('both', new class extends Command {
            public function words(array $arguments): array
            {
                return ['MGET', $arguments[0], "$arguments[0]:old"];
            }

            public function result(mixed $reply): mixed
            {
                return ['now' => $reply[0], 'old' => $reply[1]];
            }
        });
        self::assertSame(['now' => '5', 'old' => null], $c->both('n'));
        self::assertSame([['now' => '5', 'old' => null]], $c->pipeline(static fn ($p) => $p->both('n')));
        try {
            $c->register('get', $bounded);
            self::fail('expected an error');
        } catch (ArgumentException) {
        }
        $this->expectException(ArgumentException::class);
        $c->bounded();
    }

    public function testIterators(): void
    {
        $c = $this->client;
        $names = array_map(static fn (int $i): string => "n$i", range(0, 999));
        $c->mSet(array_fill_keys($names, 'v'));
        $c->hSet('hash', array_fill_keys($names, 'v'));
        $c->sAdd('set', $names);
        $c->zAdd('zset', array_fill_keys($names, 1.5));
        $unique = static fn (iterable $all): array => array_unique(iterator_to_array($all, false));
        self::assertEqualsCanonicalizing([...$names, 'hash', 'set', 'zset'], $unique($c->scanIterator(count: 50)));
        self::assertSame(['hash'], $unique($c->scanIterator(type: 'hash')));
        self::assertEqualsCanonicalizing($names, $unique($c->sScanIterator('set')));
        self::assertEqualsCanonicalizing($names, array_unique(iterator_to_array($c->sScanIterator('set', count: 10))));
        $keys = array_unique(iterator_to_array($c->scanIterator(count: 10)));
        self::assertEqualsCanonicalizing([...$names, 'hash', 'set', 'zset'], $keys);
        self::assertEqualsCanonicalizing($names, array_keys(iterator_to_array($c->hScanIterator('hash'))));
        self::assertSame(['n77' => 1.5], iterator_to_array($c->zScanIterator('zset', 'n77')));
        self::assertSame([], iterator_to_array($c->hScanIterator('none')));
        [$cursor, $pairs] = $c->hScan('hash', 0, ['match' => 'n1', 'count' => 10_000]);
        self::assertSame(['0', ['n1' => 'v']], [$cursor, $pairs]);
    }

    public function testMessages(): void
    {
        $loop = $this->client->pubSubLoop(['subscribe' => ['news', 'quit'], 'psubscribe' => 'log.*']);
        for ($i = 1; $i <= 3; $i++) {
            $message = $loop->next(5.0);
            self::assertStringEndsWith('subscribe', $message->kind);
        }
        self::assertNull($loop->next(0.01));
        $this->client->publish('news', "one\r\ntwo");
        $this->client->publish('log.x', 'three');
        $this->client->publish('quit', '');
        $seen = [];
        foreach ($loop as $message) {
            if ($message->channel === 'quit') {
                $loop->stop();
            }
            $seen[] = [$message->kind, $message->pattern, $message->channel, $message->payload];
        }
        self::assertSame([
            ['message', null, 'news', "one\r\ntwo"],
            ['pmessage', 'log.*', 'log.x', 'three'],
            ['message', null, 'quit', ''],
        ], $seen);
        self::assertNull($loop->next(1.0));
    }

    public function testFeeds(): void
    {
        if (!in_array(self::engine(), ['served', 'embedded'], true)) {
            $this->expectException(ServerException::class);
            $this->client->feed('board')->create(12);
            return;
        }
        $board = $this->client->feed('board');
        self::assertTrue($board->create(12, [4, 3, 1]));
        self::assertSame(2, $board->add(0, ['thread000001', 'thread000002'], [3, 0, 1]));
        self::assertSame(4, $board->addMany(-1, [['thread000003', [3, 7, 1]], ['thread000004', '0:0:0']]));
        self::assertSame(['thread000001', 'thread000002'], $board->range(0, 2));
        self::assertSame([['thread000002', [3, 0, 1]]], $board->range(1, 1, attributes: true));
        self::assertSame(3, $board->count([3, null, 1]));
        self::assertSame(1, $board->hide('thread000001'));
        self::assertSame(1, $board->count(seen: 'hidden'));
        self::assertTrue($board->move('thread000004', 0));
        self::assertSame(0, $board->position('thread000004'));
        self::assertNull($board->position('thread999999'));
        self::assertSame(1, $board->setAttributes('thread000004', [null, 5, null]));
        self::assertSame([['thread000004', [0, 5, 0]]], $board->range(0, 1, ':5:', attributes: true));
        self::assertSame([4, 3, 1], $board->info()['attributes']);
        self::assertSame(1, $board->show('thread000001'));
        self::assertSame('thread000004', $board->pop());
        self::assertSame(3, $board->deleteWhere('3::'));
        self::assertTrue($board->compact());
        $times = $this->client->feed('times');
        $times->create(null, order: 'sorted', type: 'int64');
        $times->add('*', [5, 3, 9]);
        self::assertSame(['3', '5'], $times->between('-inf', 5));
        self::assertSame(['5', '9'], $times->between(3, 9, 1));
        self::assertSame(1, $times->delete(9));
        self::assertSame([2, ['3']], $this->client->pipeline(static function ($pipe): void {
            $pipe->feed('times')->count();
            $pipe->feed('times')->range(0, 1);
        }));
    }
}
