<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Tests\Forked;
use Undercroft\Tests\Servers;

/**
 * Forks while a client is connected. Each process must receive only the replies to its own calls.
 */
final class ForkTest extends TestCase
{
    private static string $tcp;

    private static string $unix;

    public static function setUpBeforeClass(): void
    {
        [$port, $socket] = Servers::redis();
        [self::$tcp, self::$unix] = ["tcp://127.0.0.1:$port/1", "unix://$socket?db=1"];
    }

    /** @return iterable<string, array{array<string, mixed>}> */
    public function kinds(): iterable
    {
        $native = getenv('UNDERCROFT_ENGINE') === 'native';
        yield 'plain' => [['native' => $native]];
        yield 'RESP3' => [['native' => $native, 'protocol' => 3]];
        yield 'persistent' => [['native' => $native, 'persistent' => true]];
        yield 'spinning' => [['native' => $native, 'spin' => 50]];
    }

    /** @dataProvider kinds */
    public function testEachProcessGetsItsOwnReplies(array $options): void
    {
        foreach ([self::$tcp, self::$unix] as $url) {
            $told = Forked::run('reads', $url, $options);
            self::assertSame(['parent' => 0, 'child' => 0, 'status' => 0, 'set' => true], $told, $url);
        }
    }

    /** @dataProvider kinds */
    public function testAChildThatMakesNoCallLeavesTheConnectionAlone(array $options): void
    {
        self::assertTrue(Forked::run('unused', self::$tcp, $options)['same']);
        self::assertSame([false, true], Forked::run('again', self::$tcp, $options)['same']);
    }

    /** @dataProvider kinds */
    public function testAChildDoesNotInheritWatches(array $options): void
    {
        $told = Forked::run('watch', self::$tcp, $options);
        self::assertStringContainsString('parent process', $told['child'][0]);
        self::assertSame('1', $told['child'][1], 'nothing of the transaction ran, and the next call connects');
        self::assertSame([2], $told['ran'], 'the parent still watches');
    }

    /** @dataProvider kinds */
    public function testAChildDoesNotInheritSubscriptions(array $options): void
    {
        $told = Forked::run('subscription', self::$tcp, $options);
        self::assertSame('of the child', $told['parent']);
        self::assertStringContainsString('parent process', $told['child'][0]);
        self::assertSame(['', 'subscribe', 'of the child'], array_slice($told['child'], 1));
    }

    /** @dataProvider kinds */
    public function testAForkInASignalHandlerDuringACall(array $options): void
    {
        $told = Forked::run('handler', self::$tcp, $options);
        self::assertSame(['list', 'item'], $told['parent']);
        self::assertStringContainsString('fork', $told['child'][0]);
        self::assertNull($told['child'][1]);
    }
}
