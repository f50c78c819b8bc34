<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Tests\Servers;

/** Tests waits in processes that have more open files than PHP's stream_select() supports. */
final class DescriptorsTest extends TestCase
{
    private static function subscribed(string $url, string $options = '', string $cafile = ''): string
    {
        $isNative = getenv('UNDERCROFT_ENGINE') === 'native';
        $extension = getenv('UNDERCROFT_EXTENSION');
        $options .= $extension ? ' -d extension=' . escapeshellarg($extension) : '';
        $script = escapeshellarg(dirname(__DIR__) . '/descriptors.php');
        $arguments = "$script $url " . (int) $isNative . ' ' . escapeshellarg($cafile);
        exec('ulimit -n 4096 2>/dev/null; exec timeout 900 ' . PHP_BINARY . "$options $arguments 2>&1", $lines, $status);
        $text = implode("\n", $lines);
        if (str_starts_with($text, 'no more than')) {
            self::markTestSkipped("ulimit -n is too low: $text");
        }
        self::assertSame(0, $status, $text);
        return $text;
    }

    public function testMessagesArrive(): void
    {
        [$port, $socket] = Servers::redis();
        self::assertSame("subscribe\nnothing\ntext", self::subscribed("tcp://127.0.0.1:$port"));
        self::assertSame("subscribe\nnothing\ntext", self::subscribed("unix://$socket"));
    }

    public function testTheErrorNamesTheDescriptorLimit(): void
    {
        if (getenv('UNDERCROFT_ENGINE') === 'native') {
            self::markTestSkipped('the extension has no such limit');
        }
        [$port] = Servers::redis();
        // Run PHP without loadable extensions such as `sockets`.
        $text = self::subscribed("tcp://127.0.0.1:$port", ' -n');
        self::assertStringContainsString('no file descriptor above 1,023', $text);
    }
}
