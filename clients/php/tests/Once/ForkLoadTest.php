<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use Undercroft\Tests\EngineCase;

/**
 * Forks at random moments during calls. The child makes calls of every kind while the parent
 * continues.
 */
final class ForkLoadTest extends EngineCase
{
    private const FORKS = 30;

    /** @return iterable<string, array{array<string, mixed>}> */
    public function options(): iterable
    {
        yield 'plain' => [[]];
        if (self::engine() !== 'embedded') {
            yield 'persistent' => [['persistent' => true]];
        }
    }

    /** @dataProvider options */
    public function testEveryCallWorksInAChild(array $options): void
    {
        $extension = getenv('UNDERCROFT_EXTENSION');
        $seed = getenv('UNDERCROFT_SEED') ?: (string) random_int(1, 1_000_000_000);
        $options = json_encode($options + ['native' => self::engine() === 'native']);
        $command = ['timeout', '120', PHP_BINARY, ...($extension ? ['-d', "extension=$extension"] : []),
            dirname(__DIR__) . '/forkload.php', self::url(), $options, (string) self::FORKS, $seed];
        $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes);
        $text = stream_get_contents($pipes[1]);
        self::assertSame([0, "done\n"], [proc_close($process), $text], "UNDERCROFT_SEED=$seed repeats it");
    }
}
