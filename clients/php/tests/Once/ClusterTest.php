<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\ArgumentException;
use Undercroft\Client;
use Undercroft\ConnectionException;
use Undercroft\Resp\Slot;
use Undercroft\Session\Handler;
use Undercroft\Tests\Forked;
use Undercroft\Tests\Servers;

/** Tests a client on a cluster of three Redis servers whose slots migrate. */
final class ClusterTest extends TestCase
{
    /** @var list<int> */
    private static array $ports = [];

    /** @var list<Client> */
    private static array $servers = [];

    private Client $client;

    public static function setUpBeforeClass(): void
    {
        if (self::$ports !== []) {
            return;
        }
        for ($number = 0; $number < 3; $number++) {
            [$port] = Servers::redis('--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-port',
                (string) Servers::port());
            self::$ports[] = $port;
            self::$servers[] = new Client("tcp://127.0.0.1:$port", ['native' => false]);
        }
        foreach ([[0, 5460], [5461, 10_922], [10_923, 16_383]] as $number => [$from, $to]) {
            self::$servers[$number]->rawCommand('CLUSTER', 'ADDSLOTSRANGE', $from, $to);
            self::$servers[$number]->rawCommand('CLUSTER', 'SET-CONFIG-EPOCH', $number + 1);
        }
        foreach ([1, 2] as $number) {
            $bus = self::$servers[$number]->config('get', 'cluster-port')['cluster-port'];
            self::$servers[0]->rawCommand('CLUSTER', 'MEET', '127.0.0.1', self::$ports[$number], $bus);
        }
        self::until(static function (): bool {
            foreach (self::$servers as $server) {
                $isOne = str_contains($server->rawCommand('CLUSTER', 'INFO'), 'cluster_state:ok')
                    && count($server->rawCommand('CLUSTER', 'SLOTS')) === 3;
                if (!$isOne) {
                    return false;
                }
            }
            return true;
        });
    }

    private static function until(callable $holds): void
    {
        $end = microtime(true) + 60;
        while (!$holds()) {
            if (microtime(true) > $end) {
                throw new \RuntimeException('the cluster does not come up');
            }
            usleep(20_000);
        }
    }

    protected function setUp(): void
    {
        $this->client = new Client('redis+cluster://127.0.0.1:1,127.0.0.1:' . self::$ports[1], ['native' => false]);
        $this->client->flushAll();
    }

    public function testKeysGoToTheServersThatHaveThem(): void
    {
        $c = $this->client;
        $names = array_map(static fn (int $i): string => "key:$i", range(0, 299));
        foreach ($names as $name) {
            self::assertTrue($c->set($name, $name));
        }
        foreach ($names as $name) {
            self::assertSame($name, $c->get($name));
        }
        self::assertSame(300, $c->dbSize());
        self::assertEqualsCanonicalizing($names, $c->keys('*'));
        self::assertEqualsCanonicalizing($names, iterator_to_array($c->scanIterator(), false));
        foreach (self::$servers as $server) {
            self::assertGreaterThan(50, $server->dbSize());
        }
        self::assertSame([...$names, null], $c->mGet([...$names, 'none']));
        self::assertTrue($c->mSet(array_fill_keys($names, 'v')));
        self::assertSame(300, $c->exists($names));
        self::assertSame(array_fill(0, 300, 'v'), $c->pipeline(static function ($pipe) use ($names): void {
            foreach ($names as $name) {
                $pipe->get($name);
            }
        }));
        [$first, $values, $last] = $c->pipeline()->get('key:0')->mGet('key:1', 'key:2')->incr('n')->execute();
        self::assertSame(['v', ['v', 'v'], 1], [$first, $values, $last]);
        self::assertSame(300, $c->del($names));
    }

    public function testKeysOfOneSlot(): void
    {
        $c = $this->client;
        self::assertSame(1, $c->sAdd('{u}a', 'm'));
        self::assertSame(1, $c->sUnionStore('{u}b', '{u}a'));
        self::assertSame([true, 2], $c->transaction(static fn ($q) => $q->set('{u}n', 1)->incr('{u}n')));
        self::assertNull($c->transaction(static function ($queue): void {
            (new Client('redis+cluster://127.0.0.1:' . self::$ports[0], ['native' => false]))->incr('{u}n');
            $queue->set('{u}n', 'lost');
        }, watch: '{u}n'));
        foreach ([static fn () => $c->sUnionStore('a', 'b'), static fn () => $c->scan(),
            static fn () => $c->transaction(static fn ($q) => $q->incr('a')->incr('b'))] as $call) {
            try {
                $call();
                self::fail('expected an error');
            } catch (ArgumentException $error) {
                self::assertMatchesRegularExpression('~^(expected|SCAN)~', $error->getMessage());
            }
        }
    }

    public function testASlotThatMovesIsFollowed(): void
    {
        $c = $this->client;
        [$key, $other] = ['{mover}a', '{mover}b'];
        $slot = Slot::of($key);
        $c->set($key, 'v');
        $from = intdiv($slot, 5461);
        $to = ($from + 1) % 3;
        $id = array_map(static fn (Client $each): string => $each->rawCommand('CLUSTER', 'MYID'), self::$servers);
        self::$servers[$to]->rawCommand('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $id[$from]);
        self::$servers[$from]->rawCommand('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $id[$to]);
        // The first key has not migrated yet. The second key does not exist, so the server uses ASK
        // to redirect its creation to the new owner.
        self::assertSame('v', $c->get($key));
        self::assertTrue($c->set($other, 'w'));
        self::assertSame(['v', 'w'], $c->pipeline()->get($key)->get($other)->execute());
        self::$servers[$from]->rawCommand('MIGRATE', '127.0.0.1', self::$ports[$to], $key, 0, 5000);
        self::assertSame('v', $c->get($key));
        foreach ([$to, $from, 3 - $to - $from] as $number) {
            self::$servers[$number]->rawCommand('CLUSTER', 'SETSLOT', $slot, 'NODE', $id[$to]);
        }
        self::assertSame('v', $c->get($key), 'MOVED is followed');
        self::assertSame(['w', 'v'], $c->pipeline()->get($other)->get($key)->execute());
        self::assertSame(['w'], $c->transaction(static fn ($q) => $q->get($other)));
    }

    public function testMessages(): void
    {
        $loop = $this->client->pubSubLoop(['subscribe' => 'news']);
        self::assertSame('subscribe', $loop->next(5.0)?->kind);
        $this->client->publish('news', 'x');
        self::assertSame('x', $loop->next(5.0)?->payload);
    }

    public function testEachProcessOfAForkGetsItsOwnReplies(): void
    {
        $told = Forked::run('reads', 'redis+cluster://127.0.0.1:' . self::$ports[0]);
        self::assertSame(['parent' => 0, 'child' => 0, 'status' => 0, 'set' => true], $told);
    }

    public function testSessions(): void
    {
        $first = new Handler($this->client, patience: 0.05);
        self::assertSame('', $first->read('s'));
        self::assertTrue($first->write('s', 'data'));
        $second = new Handler(new Client('redis+cluster://127.0.0.1:' . self::$ports[0]), patience: 3.0);
        $this->client->close();
        self::assertSame('data', $second->read('s'), 'the lock of a holder whose connection ended is taken over');
        self::assertFalse($first->write('s', 'late'));
        self::assertTrue($second->write('s', 'new'));
        self::assertTrue($second->close());
        self::assertNull($this->client->get('session:s:lock'));
        self::assertSame('new', $this->client->get('session:s'));
    }

    public function testNoServerReachable(): void
    {
        $this->expectException(ConnectionException::class);
        (new Client('redis+cluster://127.0.0.1:1,127.0.0.1:2', ['native' => false]))->get('k');
    }
}
