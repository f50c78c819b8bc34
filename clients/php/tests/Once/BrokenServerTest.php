<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\ArgumentException;
use Undercroft\Client;
use Undercroft\ConnectionException;
use Undercroft\ProtocolException;
use Undercroft\ServerException;
use Undercroft\TimeoutException;

/**
 * Tests servers that close the connection, stay silent or send invalid replies: the client must
 * throw the right exception, and its next call must work.
 */
final class BrokenServerTest extends TestCase
{
    /** @var resource|null */
    private $process = null;

    private string $port = '';

    /** @var resource */
    private $output;

    private static function isNative(): bool
    {
        return getenv('UNDERCROFT_ENGINE') === 'native';
    }

    protected function tearDown(): void
    {
        if ($this->process !== null) {
            proc_terminate($this->process, SIGKILL);
            proc_close($this->process);
            $this->process = null;
        }
    }

    /**
     * @param list<list<string>> $connections the steps of scripted.php, with reply texts in plain form
     * @param array<string, mixed> $options
     */
    private function client(array $connections, array $options = []): Client
    {
        $encode = static fn (string $step): string => match (true) {
            in_array($step, ['close', 'reset', 'silent'], true) => $step,
            str_starts_with($step, 'now:') => 'now:' . base64_encode(substr($step, 4)),
            default => base64_encode($step),
        };
        $encoded = array_map(static fn (array $steps): array => array_map($encode, $steps), $connections);
        $this->process = proc_open([PHP_BINARY, dirname(__DIR__) . '/scripted.php', json_encode($encoded)],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], STDERR], $pipes);
        $this->output = $pipes[1];
        $this->port = trim(fgets($this->output));
        return new Client("tcp://127.0.0.1:$this->port", $options + ['timeout' => 0.2, 'native' => self::isNative()]);
    }

    /** @return iterable<string, array{list<string>, class-string}> */
    public function failures(): iterable
    {
        yield 'closed without a reply' => [['', 'close'], ConnectionException::class];
        yield 'reset' => [['', 'reset'], ConnectionException::class];
        yield 'half a line' => [['+O', 'close'], ConnectionException::class];
        yield 'half a string' => [["$100\r\nabc", 'close'], ConnectionException::class];
        yield 'half a list' => [["*3\r\n:1\r\n", 'close'], ConnectionException::class];
        yield 'silence' => [['silent'], TimeoutException::class];
        yield 'silence in a string' => [["$100\r\nabc", 'silent'], TimeoutException::class];
        yield 'silence in a list' => [["*3\r\n:1\r\n", 'silent'], TimeoutException::class];
        yield 'another protocol' => [["HTTP/1.1 400 Bad Request\r\n\r\n", 'close'], ProtocolException::class];
        yield 'a wrong length' => [["$2\r\nabc\r\n", 'close'], ProtocolException::class];
        yield 'a wrong number' => [[":abc\r\n", 'close'], ProtocolException::class];
    }

    /**
     * @dataProvider failures
     *
     * @param list<string> $steps
     * @param class-string<\Throwable> $class
     */
    public function testFailuresHaveTheirClass(array $steps, string $class): void
    {
        $first = array_values(array_filter($steps, static fn (string $step): bool => $step !== ''));
        $first = $steps[0] === '' ? ['now:', ...$first] : $first;
        $client = $this->client([$first, ["+OK\r\n", ":2\r\n", 'silent']]);
        try {
            $client->incr('k');
            self::fail('expected an error');
        } catch (ConnectionException $error) {
            self::assertSame($class, $error::class, $error->getMessage());
            self::assertStringContainsString("127.0.0.1:$this->port", $error->getMessage());
        }
        self::assertTrue($client->set('k', 1), 'the next call reconnects');
        self::assertSame(2, $client->incr('k'));
    }

    /**
     * Tests that a client that polls before it sleeps reads the same replies, whether they arrive
     * early, late or never.
     */
    public function testSpinning(): void
    {
        $client = $this->client([['now:', "$1\r\nv\r\n", "+OK\r\n", 'silent'], ['close'], ["+OK\r\n", 'silent']],
            ['spin' => 1_000]);
        self::assertSame('v', $client->get('k'));
        self::assertTrue($client->set('k', 'v'));
        $began = microtime(true);
        foreach ([TimeoutException::class, ConnectionException::class] as $class) {
            try {
                $client->incr('k');
                self::fail('expected an error');
            } catch (ConnectionException $error) {
                self::assertSame($class, $error::class, $error->getMessage());
            }
        }
        self::assertGreaterThan(0.19, microtime(true) - $began, 'it has slept');
        self::assertTrue($client->set('k', 'v'));
        $this->expectException(ArgumentException::class);
        new Client('tcp://127.0.0.1', ['spin' => 1_001]);
    }

    public function testOnlyReadOnlyCommandsAreResent(): void
    {
        $client = $this->client([["+OK\r\n", 'close'], ["$1\r\nv\r\n", "+OK\r\n", 'close'], [":1\r\n", 'silent']]);
        self::assertTrue($client->set('k', 'v'));
        self::assertSame('v', $client->get('k'), 'a GET is sent once more');
        self::assertTrue($client->set('k', 'w'));
        try {
            $client->incr('k');
            self::fail('expected an error: it may have run');
        } catch (ConnectionException) {
        }
        self::assertSame(1, $client->incr('k'));
    }

    public function testNothingIsResentWhileKeysAreWatched(): void
    {
        $client = $this->client([["+OK\r\n", 'close'], ["$1\r\nv\r\n", 'silent']]);
        $client->watch('k');
        try {
            $client->get('k');
            self::fail('expected an error: the key is no longer watched');
        } catch (ConnectionException) {
        }
        self::assertSame('v', $client->get('k'));
    }

    public function testAPipelineThatBreaksOffThrows(): void
    {
        $client = $this->client([["+OK\r\n:1\r\n", 'close'], ["+PONG\r\n", 'silent']]);
        try {
            $client->pipeline()->set('a', 1)->incr('n')->get('a')->execute();
            self::fail('expected an error');
        } catch (ConnectionException) {
        }
        self::assertSame('PONG', $client->ping());
    }

    public function testARefusedLoginIsTheServersError(): void
    {
        $this->client([["-WRONGPASS no\r\n", 'close']]);
        $client = new Client("tcp://user:secret@127.0.0.1:$this->port", ['native' => self::isNative()]);
        try {
            $client->get('k');
            self::fail('expected an error');
        } catch (ServerException $error) {
            self::assertSame('WRONGPASS', $error->kind());
        }
        $request = base64_decode(substr(fgets($this->output), 8));
        self::assertSame("*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\nsecret\r\n", $request);
    }

    public function testNoServerListening(): void
    {
        foreach (['tcp://127.0.0.1:1', 'unix:///nowhere/at/all'] as $url) {
            try {
                (new Client($url, ['native' => self::isNative()]))->get('k');
                self::fail('expected an error');
            } catch (ConnectionException $error) {
                self::assertStringStartsWith("cannot connect to $url: ", $error->getMessage());
                self::assertSame(1, substr_count($error->getMessage(), 'cannot connect'), $error->getMessage());
            }
        }
    }

    public function testPushesBetweenRepliesAreSkipped(): void
    {
        $client = $this->client(
            [["%1\r\n+proto\r\n:3\r\n", ">2\r\n+invalidate\r\n*0\r\n$1\r\nv\r\n", ":1\r\n>1\r\n+x\r\n:2\r\n",
                'silent']],
            ['protocol' => 3],
        );
        self::assertSame('v', $client->get('k'));
        self::assertSame([1, 2], $client->pipeline()->incr('a')->incr('a')->execute());
    }
}
