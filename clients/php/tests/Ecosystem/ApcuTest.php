<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

use Undercroft\Tests\EngineCase;

/** Tests the script in examples/migrating that copies APCu's entries to a store and back. */
final class ApcuTest extends EngineCase
{
    private const SCRIPT = __DIR__ . '/../../../../examples/migrating/copy_apcu.php';

    protected function setUp(): void
    {
        if (!extension_loaded('apcu')) {
            self::markTestSkipped("Debian's php-apcu is not installed");
        }
        parent::setUp();
    }

    /** Runs code in a PHP process with its own APCu cache, and returns its output. */
    private static function php(string $code): string
    {
        $extension = getenv('UNDERCROFT_EXTENSION');
        $command = [PHP_BINARY, ...($extension ? ['-d', "extension=$extension"] : []), '-d', 'apc.enable_cli=1'];
        $place = ['UNDERCROFT_URL' => self::url()] + getenv();
        $process = proc_open([...$command, '-r', $code], [1 => ['pipe', 'w']], $pipes, null, $place);
        $printed = stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process), $printed);
        return $printed;
    }

    private static function script(string $do, string $serializer): string
    {
        return "\$_GET = ['do' => '$do', 'serializer' => '$serializer']; require '" . self::SCRIPT . "';";
    }

    public function testEntriesComeBackUnchanged(): void
    {
        $fill = 'apcu_store("greeting", "hello"); apcu_store("hits", 41); apcu_store("none", null);'
            . 'apcu_store("user:1", ["name" => "Ada", "born" => 1815], 3600);'
            . 'for ($i = 0; $i < 1000; $i++) { apcu_store("page:$i", "body $i"); }';
        self::assertSame("imported 1004 entries\n", self::php($fill . self::script('import', 'php')));
        $client = self::connect(['serializer' => 'php']);
        self::assertSame(1004, $client->dbSize());
        self::assertSame('body 999', $client->get('page:999'));
        self::assertSame(['name' => 'Ada', 'born' => 1815], $client->get('user:1'));
        self::assertSame(42, $client->incrBy('hits', 1));
        self::assertSame(-1, $client->ttl('greeting'));
        $left = $client->ttl('user:1');
        self::assertTrue($left > 3000 && $left <= 3600, "$left");
        self::assertStringContainsString('already has 1004 keys', self::php(self::script('import', 'php')));

        $this->client->rPush('list', 'item');
        $dump = 'echo json_encode([apcu_fetch("greeting"), apcu_fetch("hits"), apcu_fetch("none", $ok), $ok,'
            . 'apcu_fetch("user:1"), apcu_key_info("user:1")["ttl"] > 3000, apcu_cache_info(true)["num_entries"]]);';
        self::assertSame(
            "exported 1004 entries; keys of other types left out: 1\n"
            . '["hello",42,null,true,{"name":"Ada","born":1815},true,1004]',
            self::php(self::script('export', 'php') . $dump),
        );
    }

    public function testStringsAreStoredAsTheyAreWithoutASerializer(): void
    {
        self::php('apcu_store("greeting", "hello");' . self::script('import', 'none'));
        self::assertSame('hello', $this->client->get('greeting'));
    }
}
