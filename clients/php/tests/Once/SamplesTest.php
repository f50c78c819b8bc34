<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Client;
use Undercroft\Tests\Servers;

/** The samples of the README run, as one program, and print what it says. */
final class SamplesTest extends TestCase
{
    /** @return iterable<string, array{list<string>}> */
    public function options(): iterable
    {
        yield 'as PHP is here' => [[]];
        yield 'without extensions' => [['-n']];
    }

    /**
     * @dataProvider options
     *
     * @param list<string> $options of PHP
     */
    public function testTheReadme(array $options): void
    {
        $home = dirname(__DIR__, 2);
        [$port] = Servers::redis();
        $page = file_get_contents("$home/README.md");
        preg_match_all('~^```php\n(.*?)^```~ms', $page, $samples);
        preg_match('~^```text\n(.*?)^```~ms', $page, $printed);
        self::assertGreaterThan(1, count($samples[1]));
        $program = strtr(implode('', $samples[1]), [
            'clients/php/autoload.php' => "$home/autoload.php",
            '127.0.0.1:6379' => "127.0.0.1:$port",
        ]);
        $file = Servers::folder() . '/samples.php';
        file_put_contents($file, "<?php declare(strict_types=1);\n$program");
        $process = proc_open([PHP_BINARY, ...$options, $file],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], STDERR], $pipes);
        // The last one waits for a message.
        $client = new Client("tcp://127.0.0.1:$port", ['native' => false]);
        $end = microtime(true) + 30;
        $isWaiting = static fn (): bool => microtime(true) < $end && proc_get_status($process)['running'];
        while ($client->publish('news', 'here') === 0 && $isWaiting()) {
            usleep(10_000);
        }
        $text = stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process));
        self::assertSame("$printed[1]news: here\n", $text);
        self::assertSame('12', $client->get('shop:a'), 'one transaction has doubled what the other one made');
    }
}
