<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

use Undercroft\Client;
use Undercroft\Session\Handler;
use Undercroft\Tests\EngineCase;
use Undercroft\Tests\Servers;
use Undercroft\TimeoutException;

/**
 * Tests the locks of session holders whose liveness neither a connection list nor a process id can
 * show.
 */
final class SessionLeaseTest extends EngineCase
{
    use SessionProcess;

    /**
     * The lease of a killed request in seconds, long enough for a busy server to renew it in time.
     */
    private const LEASE = 1.0;

    /** Returns whether the test applies to this engine, and expects no assertions otherwise. */
    private function isOf(string ...$engines): bool
    {
        $isOf = in_array(self::engine(), $engines, true);
        $isOf || $this->expectNotToPerformAssertions();
        return $isOf;
    }

    /** Asserts that another request's lock is still held after `$patience` seconds. */
    private static function assertKeptOut(Client $client, float $patience): void
    {
        try {
            (new Handler($client, patience: $patience, lease: self::LEASE))->read('s');
            self::fail('two requests have the lock of one session');
        } catch (TimeoutException) {
        }
    }

    /**
     * Asserts that the lock becomes free. The 20 s limit is well below the 60 s hold time and well
     * above the lease.
     */
    private static function assertGetsIn(Client $client): void
    {
        $next = new Handler($client, hold: 60, patience: 20.0, lease: self::LEASE);
        self::assertSame('', $next->read('s'));
        self::assertTrue($next->write('s', 'data'));
        self::assertTrue($next->close());
        self::assertSame(0, $client->exists('session:s:lock'));
    }

    /** Returns a server URL for a user that has only the given rights. */
    private static function limited(string $rights): string
    {
        [$port] = Servers::redis('--user', 'app', 'on', '>secret', '~session:*', ...explode(' ', $rights));
        return "tcp://app:secret@127.0.0.1:$port";
    }

    public function testAUserThatMayNotListConnections(): void
    {
        if (!$this->isOf('served', 'redis', 'native')) {
            return;
        }
        // A user's rights are commonly restricted in two ways. One restriction is tested with the
        // extension, and the other in pure PHP.
        $rights = self::engine() === 'native' ? '+@all -@dangerous' : '+@all -client';
        $url = self::limited($rights);
        $client = new Client($url, ['native' => self::engine() === 'native']);
        $this->hold($url, environment: ['UNDERCROFT_LEASE' => (string) self::LEASE]);
        $left = $client->pTtl('session:s:lock');
        self::assertGreaterThan(0, $left);
        self::assertLessThanOrEqual(1000 * self::LEASE, $left);
        // The holder makes no call for longer than its lease, but must still hold the lock.
        self::assertKeptOut($client, self::LEASE + 0.3);
        $this->kill();
        self::assertGetsIn($client);
    }

    public function testAUserThatMayNotRunBlockingCommands(): void
    {
        if (!$this->isOf('served', 'redis', 'native')) {
            return;
        }
        $client = new Client(self::limited('+@all -client -@blocking'), ['native' => self::engine() === 'native']);
        $holder = new Handler($client, hold: 60, lease: self::LEASE);
        $holder->read('s');
        self::assertGreaterThan(1000 * self::LEASE, $client->pTtl('session:s:lock'), 'no server renews it');
        self::assertTrue($holder->write('s', 'data'));
        self::assertTrue($holder->close());
        self::assertSame(0, $client->exists('session:s:lock'));
    }

    public function testALeaseEndsWithItsRequest(): void
    {
        if (!$this->isOf('served', 'redis', 'native')) {
            return;
        }
        $url = self::limited('+@all -client');
        $client = new Client($url, ['native' => self::engine() === 'native']);
        $this->start('exception', $url, environment: ['UNDERCROFT_LEASE' => '30']);
        stream_get_contents($this->pipes[1]);
        $this->end();
        self::assertSame(0, $client->exists('session:s:lock'), 'an error of the program releases it');
        self::assertSame('mark|s:9:"exception";', $client->get('session:s'));
        $holder = new Handler($client, lease: 30.0);
        $holder->read('s');
        self::assertSame('1', $client->info('clients')['Clients']['blocked_clients']);
        self::assertTrue($holder->close());
        do {
            $waiting = $client->info('clients')['Clients']['blocked_clients'];
        } while ($waiting !== '0');
    }

    /** Tests two servers on one store, each of which numbers only its own connections. */
    public function testTwoServersOfOneStore(): void
    {
        if (!$this->isOf('served')) {
            return;
        }
        $store = Servers::store();
        $clients = $urls = [];
        for ($number = 0; $number < 2; $number++) {
            $port = Servers::port();
            $command = [Servers::program(), 'serve', $store, '--port', (string) $port, '--bind', '127.0.0.1'];
            Servers::start($command, $port);
            $urls[] = "tcp://127.0.0.1:$port";
            $clients[] = new Client($urls[$number], ['native' => false]);
        }
        $this->hold($urls[0], environment: ['UNDERCROFT_LEASE' => (string) self::LEASE]);
        self::assertKeptOut($clients[1], self::LEASE + 0.3);
        $this->kill();
        self::assertGetsIn($clients[1]);
    }

    /** Tests a holder in another container, whose process id denotes a different process here. */
    public function testAHolderInAnotherContainer(): void
    {
        if (!$this->isOf('embedded')) {
            return;
        }
        $in = ['unshare', '--pid', '--fork', '--kill-child'];
        exec(implode(' ', $in) . ' true 2>&1', $lines, $status);
        $status === 0 || self::markTestSkipped('no namespace of processes: ' . implode(' ', $lines));
        $this->hold(in: $in);
        self::assertKeptOut(self::connect(), 0.7);
        $this->kill();
        self::assertGetsIn(self::connect());
    }

    public function testAHolderOfAnotherVersionCountsAsAlive(): void
    {
        $held = '0123456789abcdef 1 2 boot';
        $this->client->set('session:s:lock', $held);
        self::assertKeptOut(self::connect(), 0.6);
        self::assertSame($held, $this->client->get('session:s:lock'));
    }
}
