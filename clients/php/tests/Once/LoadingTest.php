<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Tests\Servers;

/**
 * Tests which files a process loads. Without opcache, it loads only the files that it needs. With
 * opcache, it loads all command methods.
 */
final class LoadingTest extends TestCase
{
    private static string $url;

    public static function setUpBeforeClass(): void
    {
        self::$url = 'unix://' . Servers::redis()[1];
    }

    /** Returns the output of a program that uses a client. */
    private static function printed(string $program, bool $hasOpcache = false): string
    {
        $command = [PHP_BINARY, '-d', 'opcache.enable_cli=' . (int) $hasOpcache, '-r',
            'require ' . var_export(dirname(__DIR__, 2) . '/autoload.php', true) . ";
            \$client = new Undercroft\\Client('" . self::$url . "', ['native' => false]); $program"];
        exec(implode(' ', array_map(escapeshellarg(...), $command)) . ' 2>&1', $lines, $status);
        self::assertSame(0, $status, implode("\n", $lines));
        return implode("\n", $lines);
    }

    /** @return list<string> the files of this package that a program loads */
    private static function files(string $program): array
    {
        $end = 'echo implode("\n", get_included_files());';
        return array_map(static fn (string $file): string => basename($file, '.php'),
            explode("\n", self::printed("$program $end")));
    }

    public function testAFirstCallLoadsFewFiles(): void
    {
        $get = '$client->set("k", "v"); $client->get("k") === "v" && $client->get("none") === null || exit(1);';
        $files = self::files($get);
        self::assertContains('StreamConnection', $files);
        self::assertLessThanOrEqual(10, count($files), implode(', ', $files));
        // Further calls load only the files for their methods, and no other family.
        $more = array_diff(self::files($get . '$client->hSet("h", "f", "v"); $client->hLen("h");'),
            $files);
        self::assertEqualsCanonicalizing(['Families', 'Family', 'Packing', 'Written', 'Hashes', 'Encoder'], $more);
    }

    /** @return iterable<string, array{string, string}> programs with their expected output */
    public function programs(): iterable
    {
        yield 'names' => ['echo json_encode([$client->HSET("h", "f", 1), $client->hget(field: "f", key: "h"),
            (clone $client)->zAdd("z", 1.5, "m"), $client->zRange("z", 0, -1, withscores: true)]);',
            '[1,"1",1,{"m":1.5}]'];
        yield 'callables' => ['$push = $client->rPush(...); $push("l", "a");
            array_map([$client, "rPush"], ["l"], ["b"]);
            echo json_encode([$client->lRange("l", 0, -1), is_callable([$client, "lRange"])]);', '[["a","b"],true]'];
        yield 'numbers as keys' => ['$client->hSet(7, 1, 2); echo $client->hGet(7, 1);', '2'];
        yield 'parents' => ['class Loud extends Undercroft\Client {
                public function exists(string|array ...$keys): mixed { return "loud " . parent::exists(...$keys); }
            } echo (new Loud($client->connection()))->exists("no");', 'loud 0'];
        yield 'too few' => ['try { $client->lPush(); } catch (ArgumentCountError $error) { echo get_class($error); }',
            'ArgumentCountError'];
        yield 'null' => ['try { $client->hGet(null, "f"); } catch (TypeError $error) { echo get_class($error); }',
            'TypeError'];
        yield 'taken names' => ['class Mine extends Undercroft\Command { public function words(array $words): array {
            return []; } } try { $client->register("lpush", new Mine()); } catch (Undercroft\ArgumentException $error) {
            echo $error->getMessage(); }', 'expected a name that is not a method, got lpush'];
        yield 'prefixes' => ['
            $own = new Undercroft\Client($client->connection(), ["prefix" => "p:", "serializer" => "json"]);
            $own->lPush("l", [[1]]); echo json_encode([$own->lIndex("l", 0), $client->lIndex("p:l", 0),
            $own->pipeline(fn ($pipe) => $pipe->lLen("l")->lPop("l"))]);', '[[1],"[1]",[1,[1]]]'];
    }

    /** @dataProvider programs */
    public function testMethodsAreTheSameHoweverTheyAreLoaded(string $program, string $expected): void
    {
        foreach (extension_loaded('Zend OPcache') ? [false, true] : [false] as $hasOpcache) {
            $program = "\$client->flushAll(); $program";
            self::assertSame($expected, self::printed($program, $hasOpcache), $hasOpcache ? 'with opcache' : 'without');
        }
    }

    public function testOpcacheHasAllMethods(): void
    {
        extension_loaded('Zend OPcache') || self::markTestSkipped('no opcache here');
        $program = 'echo json_encode([method_exists($client, "lPush"),
            class_exists("Undercroft\\\\Commands\\\\Families", false)]);';
        self::assertSame('[true,false]', self::printed($program, hasOpcache: true));
        self::assertSame('[false,false]', self::printed($program));
    }
}
