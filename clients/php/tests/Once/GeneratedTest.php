<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Client;
use Undercroft\Commands\Families;
use Undercroft\Tests\Servers;

/** Tests that the generated files match the output of tools/generate.php. */
final class GeneratedTest extends TestCase
{
    public function testMethodsAndTableAreNotStale(): void
    {
        [$port] = Servers::undercroft();
        $folder = Servers::folder() . '/made';
        $home = dirname(__DIR__, 2);
        exec(PHP_BINARY . " $home/tools/generate.php tcp://127.0.0.1:$port $folder", $lines, $status);
        self::assertSame(0, $status, implode("\n", $lines));
        $made = [...glob("$folder/*.php"), ...glob("$folder/*/*.php")];
        self::assertGreaterThan(5, count($made));
        foreach ($made as $file) {
            $kept = "$home/src" . substr($file, strlen($folder));
            self::assertFileEquals($file, $kept, "stale: type php clients/php/tools/generate.php tcp://HOST:PORT");
        }
    }

    public function testEveryFileIsLoaded(): void
    {
        $home = dirname(__DIR__, 2);
        $files = array_map(static fn (string $file): string => substr($file, strlen("$home/src/"), -4),
            [...glob("$home/src/*.php"), ...glob("$home/src/*/*.php")]);
        self::assertGreaterThan(40, count($files));
        preg_match_all('~(?<=\|)[A-Za-z/]+(?=\|)~', file_get_contents("$home/autoload.php"), $listed);
        self::assertEqualsCanonicalizing($files, $listed[0]);
    }

    public function testClassesArePreloaded(): void
    {
        if (!extension_loaded('Zend OPcache')) {
            self::markTestSkipped('no opcache here');
        }
        $program = 'echo json_encode([class_exists("Undercroft\\\\Client", false), count(get_included_files())]);';
        $user = posix_getpwuid(posix_geteuid())['name'];
        $command = [PHP_BINARY, '-d', 'opcache.enable_cli=1', '-d', "opcache.preload_user=$user", '-d',
            'opcache.preload=' . dirname(__DIR__, 2) . '/preload.php', '-r', $program];
        exec(implode(' ', array_map(escapeshellarg(...), $command)) . ' 2>&1', $lines, $status);
        self::assertSame([0, '[true,0]'], [$status, implode("\n", $lines)]);
    }

    public function testEveryCommandOfTheTableHasAMethod(): void
    {
        $client = new Client();
        $written = ['GET', 'SET', 'HSET', 'ZADD', 'EVAL', 'EVALSHA', 'SCAN', 'HSCAN', 'SSCAN', 'ZSCAN', 'KEYS',
            'MEMORY', 'WATCH', 'UNWATCH', 'MULTI', 'FEED', 'XADD', 'XTRIM', 'XRANGE', 'XREVRANGE', 'XREAD',
            'XREADGROUP', 'XCLAIM', 'EVAL_RO', 'EVALSHA_RO', 'FCALL', 'FCALL_RO'];
        $families = require dirname(__DIR__, 2) . '/tools/commands.php';
        $named = array_merge($written, ...array_map(array_keys(...), array_values($families)));
        foreach ($named as $name) {
            $method = str_replace(['_RO', '.'], ['Ro', ''], $name);
            self::assertTrue(method_exists($client, $method) || Families::of($method, '', null) !== null,
                "a method for $name");
        }
        [$port] = Servers::undercroft();
        $served = array_map(strtoupper(...), array_column((new Client("tcp://127.0.0.1:$port"))->command(), 0));
        self::assertGreaterThan(200, count($served));
        // The client provides these commands in another form, such as pubSubLoop() and feed(), or
        // does not provide them because they change the connection's state or are meant for
        // debugging.
        $others = ['DISCARD', 'EXEC', 'HELLO', 'QUIT', 'RESET', 'SELECT', 'MONITOR', 'SUBSCRIBE', 'PSUBSCRIBE',
            'SSUBSCRIBE', 'UNSUBSCRIBE', 'PUNSUBSCRIBE', 'SUNSUBSCRIBE', 'DEBUG', 'PFDEBUG', 'PFSELFTEST'];
        // These commands are refused, or only servers use them.
        $refused = ['ASKING', 'READONLY', 'READWRITE', 'SYNC', 'PSYNC', 'REPLCONF', 'RESTORE-ASKING'];
        $missing = array_filter(array_diff($served, $named, $others, $refused),
            static fn (string $name): bool => !str_starts_with($name, 'FEED.'));
        self::assertSame([], array_values($missing));
        // Every command of Redis 7.0 must also have a method.
        [$port] = Servers::redis();
        $known = array_map(strtoupper(...), array_column((new Client("tcp://127.0.0.1:$port"))->command(), 0));
        self::assertSame([], array_values(array_diff($known, $named, $others, $refused)));
    }
}
