<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Client;
use Undercroft\Tests\Servers;

/** Runs the documentation's code samples. A second run must print the same output. */
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
     * @param list<string> $options PHP's command-line options
     */
    public function testSamplesOfTheReadme(array $options): void
    {
        [$port] = Servers::redis();
        $page = file_get_contents(self::root() . '/clients/php/README.md');
        preg_match_all('~^```php\n(.*?)^```~ms', $page, $samples);
        preg_match('~^```text\n(.*?)^```~ms', $page, $printed);
        self::assertGreaterThan(1, count($samples[1]));
        self::assertStringStartsWith("<?php\n", $samples[1][0]);
        // The README tells readers to save the program next to autoload.php. Run it from a
        // different working directory.
        $folder = Servers::folder() . '/' . bin2hex(random_bytes(4));
        mkdir($folder);
        symlink(self::root() . '/clients/php/autoload.php', "$folder/autoload.php");
        $program = str_replace('127.0.0.1:6379', "127.0.0.1:$port", implode('', $samples[1]));
        file_put_contents("$folder/samples.php", $program);
        $client = new Client("tcp://127.0.0.1:$port", ['native' => false]);
        foreach (['first', 'second'] as $time) {
            $process = proc_open([PHP_BINARY, ...$options, "$folder/samples.php"],
                [['file', '/dev/null', 'r'], ['pipe', 'w'], STDERR], $pipes, '/');
            // The last sample waits for a message, so publish until it has received one.
            $end = microtime(true) + 30;
            $isWaiting = static fn (): bool => microtime(true) < $end && proc_get_status($process)['running'];
            while ($client->publish('news', 'here') === 0 && $isWaiting()) {
                usleep(10_000);
            }
            $text = stream_get_contents($pipes[1]);
            self::assertSame(0, proc_close($process), "the $time run");
            self::assertSame("$printed[1]news: here\n", $text, "the $time run");
            self::assertSame('12', $client->get('shop:a'), 'one transaction has doubled what the other one made');
        }
    }

    /**
     * Runs the samples from the other pages, which need a store. Without the extension, they are
     * only parsed.
     */
    public function testSamplesOfTheOtherPages(): void
    {
        $store = Servers::store();
        $folder = Servers::folder() . '/' . bin2hex(random_bytes(4));
        mkdir($folder);
        $pages = [];
        foreach (self::pages() as $page) {
            preg_match_all('~^```php\n(.*?)^```~ms', file_get_contents(self::root() . "/$page"), $samples);
            foreach ($samples[1] as $number => $sample) {
                $pages[$page] = true;
                $file = "$folder/" . strtr($page, '/', '-') . "-$number.php";
                $autoload = var_export(self::root() . '/clients/php/autoload.php', true);
                // A complete program requires autoload.php by its path from the repository's root.
                $sample = preg_replace("~^<\?php\nrequire '[^']*';~", '', $sample);
                file_put_contents($file, "<?php require $autoload;\n"
                    . str_replace('undercroft://demo', "undercroft://$store", $sample));
                if (extension_loaded('undercroft')) {
                    // One sample reads a key that earlier samples in README.md set, so set it
                    // first.
                    (new Client("undercroft://$store"))->set('greeting', 'hello');
                    $extension = getenv('UNDERCROFT_EXTENSION');
                    $options = $extension === false ? [] : ['-d', "extension=$extension"];
                    $first = self::printed([...$options, $file]);
                    self::assertStringStartsWith('hello', $first, $page);
                    self::assertSame($first, self::printed([...$options, $file]), "the second run of $page");
                } else {
                    self::printed(['-l', $file]);
                }
            }
        }
        self::assertArrayHasKey('README.md', $pages);
        self::assertArrayHasKey('clients/php/extension/README.md', $pages);
    }

    /** @return list<string> the repository's Markdown files except the client's README */
    private static function pages(): array
    {
        exec('git -C ' . escapeshellarg(self::root()) . " ls-files '*.md'", $pages, $status);
        self::assertSame(0, $status);
        return array_values(array_diff($pages, ['clients/php/README.md']));
    }

    private static function root(): string
    {
        return dirname(__DIR__, 4);
    }

    /**
     * Runs a program, which must succeed, and returns its output.
     *
     * @param list<string> $arguments PHP's command-line arguments
     */
    private static function printed(array $arguments): string
    {
        $process = proc_open([PHP_BINARY, ...$arguments],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], STDERR], $pipes, '/');
        $text = stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process), implode(' ', $arguments) . ": $text");
        return $text;
    }
}
