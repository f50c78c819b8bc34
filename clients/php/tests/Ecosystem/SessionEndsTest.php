<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

use Undercroft\Session\Handler;
use Undercroft\Tests\EngineCase;
use Undercroft\TimeoutException;

/**
 * Tests session requests that end in different ways: the next request must get the lock, and a
 * destroyed session must stay destroyed.
 */
final class SessionEndsTest extends EngineCase
{
    use SessionProcess;

    /** Returns a handler that waits up to three seconds for the lock. */
    private static function next(): Handler
    {
        return new Handler(self::connect(), hold: 60, patience: 3.0);
    }

    public function testTheLockOfAKilledRequestIsTakenOver(): void
    {
        $this->client->set('session:s', 'mark|s:6:"before";');
        $this->start('hold');
        self::assertSame("held\n", fgets($this->pipes[1]));
        $patient = new Handler(self::connect(), hold: 60, patience: 1.2);
        try {
            $patient->read('s');
            self::fail('expected an error: the holder lives');
        } catch (TimeoutException) {
        }
        $this->kill();
        $next = self::next();
        self::assertSame('mark|s:6:"before";', $next->read('s'));
        self::assertTrue($next->write('s', 'data'));
        self::assertTrue($next->close());
        self::assertNull($this->client->get('session:s:lock'));
    }

    /** @return iterable<string, array{string}> */
    public function ends(): iterable
    {
        yield 'memory' => ['memory'];
        yield 'time' => ['time'];
        yield 'an exception' => ['exception'];
        yield 'exit in a handler' => ['exit'];
    }

    /** @dataProvider ends */
    public function testARequestAbortedDuringACallStoresItsSession(string $what): void
    {
        $this->client->rPush('long', ...array_fill(0, 1000, 'item'));
        $this->start($what);
        stream_get_contents($this->pipes[1]);
        $this->end();
        self::assertNull($this->client->get('session:s:lock'), 'the lock is released');
        self::assertSame(sprintf('mark|s:%d:"%s";', strlen($what), $what), $this->client->get('session:s'));
    }

    public function testAForkLeavesTheSessionToItsParent(): void
    {
        $this->start('fork');
        self::assertSame("1\n", stream_get_contents($this->pipes[1]), 'the lock is held after the end of the child');
        $this->end();
        self::assertSame('mark|s:4:"fork";', $this->client->get('session:s'));
        self::assertNull($this->client->get('session:s:lock'));
    }

    public function testASessionThatEndedDuringTheWaitIsNotStoredAgain(): void
    {
        foreach (['wait', 'wait strictly'] as $what) {
            $holder = new Handler($this->client);
            $holder->read('s');
            $holder->write('s', 'mark|s:3:"old";');
            $this->start($what);
            // In strict mode, validateId() or the wait for the lock prints the first line. Both
            // precede destroy().
            self::assertSame("seen\n", fgets($this->pipes[1]), $what);
            $holder->destroy('s');
            $holder->close();
            $lines = explode("\n", trim(stream_get_contents($this->pipes[1])));
            self::assertSame(0, $this->end(), $what);
            self::assertNull($this->client->get('session:s'), "$what: it stays ended");
            $id = end($lines);
            if ($what === 'wait strictly') {
                self::assertNotSame('s', $id);
                self::assertSame('mark|s:13:"wait strictly";', $this->client->get("session:$id"));
            }
            self::assertSame([], $this->client->keys('*:lock'));
        }
    }
}
