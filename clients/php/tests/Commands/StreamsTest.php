<?php

declare(strict_types=1);

namespace Undercroft\Tests\Commands;

use Undercroft\Tests\EngineCase;

/**
 * Tests streams, sharded channels, functions, and ACL users. `undercroft serve` does not support
 * ACL users.
 */
final class StreamsTest extends EngineCase
{
    public function testStreams(): void
    {
        $c = $this->client;
        self::assertSame('1-1', $c->xAdd('s', '1-1', ['a' => 1, 'b' => 'x']));
        self::assertSame('2-0', $c->xAdd('s', '2-0', ['a' => 2]));
        self::assertMatchesRegularExpression('~^\d+-\d+$~D', $c->xAdd('other', '*', ['f' => 'v']));
        self::assertNull($c->xAdd('none', '*', ['f' => 'v'], ['nomkstream' => true]));
        self::assertSame(2, $c->xLen('s'));
        self::assertSame(['1-1' => ['a' => '1', 'b' => 'x'], '2-0' => ['a' => '2']], $c->xRange('s', '-', '+'));
        self::assertSame(['1-1' => ['a' => '1', 'b' => 'x']], $c->xRange('s', count: 1));
        self::assertSame(['2-0' => ['a' => '2']], $c->xRevRange('s', '+', '-', 1));
        self::assertSame([], $c->xRange('none'));
        self::assertSame(['s' => ['2-0' => ['a' => '2']]], $c->xRead(['s' => '1-1', 'none' => 0]));
        self::assertSame(['s', 'other'], array_keys($c->xRead(['s' => 0, 'other' => 0], 1)));
        self::assertNull($c->xRead(['s' => '$'], block: 10));
        self::assertNull($c->execute(['XREAD', 'BLOCK', 10, 'STREAMS', 's', '$']));
        self::assertSame('3-0', $c->xAdd('s', '3-0', ['a' => 3], ['maxlen' => 2]));
        self::assertSame(['2-0', '3-0'], array_keys($c->xRange('s')));
        self::assertSame('4-0', $c->xAdd('s', '4-0', ['a' => 4], 100, true));
        self::assertSame(1, $c->xTrim('s', 2));
        self::assertSame(1, $c->xTrim('s', ['minid' => '4-0']));
        self::assertSame(1, $c->xDel('s', '4-0', '9-9'));
        self::assertTrue($c->xSetId('s', '9-0'));
        self::assertSame('9-0', $c->xInfo('stream', 's')['last-generated-id']);
    }

    public function testGroups(): void
    {
        $c = $this->client;
        self::assertTrue($c->xGroup('create', 's', 'g', '$', 'MKSTREAM'));
        $c->pipeline(static function ($pipe): void {
            for ($i = 1; $i <= 4; $i++) {
                $pipe->xAdd('s', "$i-0", ['n' => $i]);
            }
        });
        self::assertSame(['s' => ['1-0' => ['n' => '1'], '2-0' => ['n' => '2']]],
            $c->xReadGroup('g', 'ada', ['s' => '>'], 2));
        self::assertSame(['s' => ['3-0' => ['n' => '3'], '4-0' => ['n' => '4']]],
            $c->xReadGroup('g', 'bob', ['s' => '>'], 10, 10));
        self::assertNull($c->xReadGroup('g', 'bob', ['s' => '>'], noAck: true));
        self::assertSame(1, $c->xAck('s', 'g', '1-0'));
        self::assertSame([3, '2-0', '4-0', [['ada', '1'], ['bob', '2']]], $c->xPending('s', 'g'));
        [$id, $consumer] = $c->xPending('s', 'g', '-', '+', 10, 'ada')[0];
        self::assertSame(['2-0', 'ada'], [$id, $consumer]);
        self::assertSame(['2-0' => ['n' => '2']], $c->xClaim('s', 'g', 'bob', 0, '2-0'));
        self::assertSame(['2-0', '3-0'], $c->xClaim('s', 'g', 'ada', 0, ['2-0', '3-0'], ['justid' => true]));
        $c->xDel('s', '3-0');
        self::assertSame(['0-0', ['2-0' => ['n' => '2'], '4-0' => ['n' => '4']], ['3-0']],
            $c->xAutoClaim('s', 'g', 'bob', 0, '-'));
        self::assertSame(['4-0', ['2-0'], []],
            $c->xAutoClaim('s', 'g', 'bob', 0, '-', ['count' => 1, 'justid' => true]));
        self::assertSame('g', $c->xInfo('groups', 's')[0]['name']);
        self::assertSame(['ada', 'bob'], array_column($c->xInfo('consumers', 's', 'g'), 'name'));
        self::assertSame(1, $c->xGroup('createconsumer', 's', 'g', 'eve'));
        self::assertSame(2, $c->xGroup('delconsumer', 's', 'g', 'bob'));
        self::assertSame(1, $c->xGroup('destroy', 's', 'g'));
    }

    public function testPrefixesAndSerializers(): void
    {
        $c = self::connect(['prefix' => 'p:', 'serializer' => 'json']);
        $c->xAdd('s', '1-0', ['list' => [1, 2], 'text' => 'x']);
        self::assertSame(1, $this->client->xLen('p:s'));
        self::assertSame(['1-0' => ['list' => [1, 2], 'text' => 'x']], $c->xRange('s'));
        self::assertSame(['p:s' => ['1-0' => ['list' => [1, 2], 'text' => 'x']]], $c->xRead(['s' => 0]));
        self::assertSame([['p:s' => ['1-0' => ['list' => [1, 2], 'text' => 'x']]], 1],
            $c->transaction(static fn ($queue) => $queue->xRead(['s' => 0])->xLen('s')));
    }

    /** Tests streams of 10 and 100,000 entries. */
    public function testSizes(): void
    {
        foreach ([10, 100_000] as $size) {
            $c = $this->client;
            $c->del('s');
            foreach (array_chunk(range(1, $size), 10_000) as $numbers) {
                $c->pipeline(static function ($pipe) use ($numbers): void {
                    foreach ($numbers as $number) {
                        $pipe->xAdd('s', "$number-0", ['n' => $number]);
                    }
                });
            }
            $entries = $c->xRange('s');
            self::assertCount($size, $entries);
            self::assertSame(['n' => (string) $size], $entries["$size-0"]);
            self::assertCount($size, $c->xRead(['s' => 0])['s']);
        }
    }

    public function testShardedMessages(): void
    {
        if (self::engine() === 'embedded') {
            // Embedded connections do not support SSUBSCRIBE.
            $this->expectNotToPerformAssertions();
            return;
        }
        $loop = $this->client->pubSubLoop(['ssubscribe' => ['news', 'more']]);
        self::assertSame(['ssubscribe', 'ssubscribe'], [$loop->next(5.0)->kind, $loop->next(5.0)->kind]);
        self::assertSame(1, $this->client->sPublish('news', 'text'));
        $message = $loop->next(5.0);
        self::assertSame(['smessage', 'news', 'text'], [$message->kind, $message->channel, $message->payload]);
        $loop->sUnsubscribe('news');
        self::assertSame('sunsubscribe', $loop->next(5.0)->kind);
        self::assertSame(0, $this->client->sPublish('news', 'text'));
    }

    public function testFunctions(): void
    {
        $c = $this->client;
        $library = "#!lua name=mine\nredis.register_function{function_name='twice', "
            . "callback=function(keys, args) return redis.call('GET', keys[1]) * 2 end, flags={'no-writes'}}";
        self::assertSame('mine', $c->function('load', ['replace' => true], $library));
        $c->set('n', 21);
        self::assertSame(42, $c->fCall('twice', ['n'], 1));
        self::assertSame(42, $c->fCallRo('twice', 1, 'n'));
        self::assertSame('mine', $c->function('list')[0]['library_name']);
        self::assertTrue($c->function('delete', 'mine'));
        self::assertSame('21', $c->evalRo('return redis.call("GET", KEYS[1])', ['n'], 1));
        self::assertSame('21', $c->evalShaRo(sha1('return redis.call("GET", KEYS[1])'), 1, 'n'));
    }

    public function testUsers(): void
    {
        $c = $this->client;
        self::assertTrue($c->acl('setuser', 'eve', 'on', '~*', '+get'));
        self::assertContains('on', $c->acl('getuser', 'eve')['flags']);
        // A process that has opened the store itself has no user.
        self::assertSame(self::engine() === 'embedded' ? null : 'default', $c->acl('whoami'));
        self::assertSame(1, $c->acl('deluser', 'eve'));
    }

    public function testServerIntrospection(): void
    {
        $c = $this->client;
        self::assertSame([], $c->module('list'));
        self::assertIsArray($c->latency('latest'));
        self::assertStringContainsString('Redis ver. 7', $c->lolwut());
        self::assertTrue($c->replicaOf('no', 'one'));
    }
}
