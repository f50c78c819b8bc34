<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

use Undercroft\Session\Handler;
use Undercroft\Tests\EngineCase;
use Undercroft\TimeoutException;

/**
 * Tests that each session request reads what the previous request wrote, and that requests never
 * overlap.
 */
final class SessionTest extends EngineCase
{
    public function testRequestsOfOneSessionTakeTurns(): void
    {
        $processes = [];
        $extension = getenv('UNDERCROFT_EXTENSION');
        $php = [PHP_BINARY, ...($extension ? ['-d', "extension=$extension"] : [])];
        for ($number = 0; $number < 4; $number++) {
            $processes[] = proc_open([...$php, dirname(__DIR__) . '/session.php', self::url(), 'shared', '25'],
                [['file', '/dev/null', 'r'], STDERR, STDERR], $pipes);
        }
        foreach ($processes as $process) {
            self::assertSame(0, proc_close($process));
        }
        self::assertSame('count|i:100;', $this->client->get('session:shared'));
        self::assertNull($this->client->get('session:shared:lock'));
    }

    public function testLocks(): void
    {
        $first = new Handler($this->client, lifetime: 100, hold: 60, patience: 0.05);
        $second = new Handler(self::connect(), lifetime: 100, patience: 0.05);
        self::assertSame('', $first->read('s'));
        self::assertTrue($first->write('s', 'data'));
        self::assertSame(100, $this->client->ttl('session:s'));
        try {
            $second->read('s');
            self::fail('expected an error');
        } catch (TimeoutException $error) {
            self::assertStringContainsString('another request', $error->getMessage());
        }
        self::assertTrue($first->close());
        self::assertSame('data', $second->read('s'));
        self::assertFalse($first->write('s', 'late'), 'a session without the lock is not written');
        // A request that lost its lock, because it held the lock for too long, must not release the
        // next holder's lock.
        $this->client->set('session:s:lock', 'of another');
        self::assertFalse($second->write('s', 'late'));
        self::assertTrue($second->close());
        self::assertSame('of another', $this->client->get('session:s:lock'));
        self::assertSame('data', $this->client->get('session:s'));
        self::assertTrue($first->validateId('s'));
        self::assertTrue($first->updateTimestamp('s', 'data'));
        self::assertFalse((new Handler($this->client, lifetime: PHP_INT_MAX))->write('s', 'without a lock'));
        self::assertTrue($first->destroy('s'));
        self::assertFalse($first->validateId('s'));
    }
}
