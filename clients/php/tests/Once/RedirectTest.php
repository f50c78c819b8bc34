<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Client;
use Undercroft\ProtocolException;

/**
 * Tests cluster redirections that name servers as Redis does: IPv6 addresses without brackets, and
 * an empty host for the server that replies.
 */
final class RedirectTest extends TestCase
{
    /** @var list<resource> */
    private array $processes = [];

    protected function tearDown(): void
    {
        foreach ($this->processes as $process) {
            proc_terminate($process, SIGKILL);
            proc_close($process);
        }
        $this->processes = [];
    }

    /**
     * Starts a server that answers each request with the next text in a list. Returns the server's
     * port.
     */
    private function serve(string $address, callable $replies): int
    {
        $probe = @stream_socket_server("tcp://$address:0");
        if ($probe === false) {
            self::markTestSkipped("no $address here");
        }
        $name = stream_socket_get_name($probe, false);
        fclose($probe);
        $port = (int) substr($name, strrpos($name, ':') + 1);
        $steps = [...array_map(base64_encode(...), $replies($port)), 'silent'];
        $process = proc_open([PHP_BINARY, dirname(__DIR__) . '/scripted.php', json_encode([$steps]), "$address:$port"],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], STDERR], $pipes);
        fgets($pipes[1]);
        $this->processes[] = $process;
        return $port;
    }

    private static function slots(string $host, int $port): string
    {
        return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$" . strlen($host) . "\r\n$host\r\n:$port\r\n";
    }

    /**
     * @return iterable<string, array{string, string, string}> the listening address, and the names that the first server sends
     */
    public function places(): iterable
    {
        yield 'IPv6' => ['[::1]', '::1', '::1'];
        yield 'IPv6 in brackets' => ['[::1]', '::1', '[::1]'];
        yield 'IPv6 of IPv4' => ['127.0.0.1', '127.0.0.1', '::ffff:127.0.0.1'];
        yield 'no host' => ['127.0.0.2', '', ''];
        yield 'no host, IPv6' => ['[::1]', '', ''];
        yield 'an unknown name' => ['127.0.0.2', '?', '?'];
        yield 'a name' => ['127.0.0.1', '127.0.0.1', 'localhost'];
    }

    /** @dataProvider places */
    public function testARedirectIsFollowedToTheNamedServer(string $address, string $own, string $named): void
    {
        foreach (['MOVED' => ["$1\r\nv\r\n"], 'ASK' => ["+OK\r\n$1\r\nv\r\n"]] as $kind => $answer) {
            $other = $this->serve($address, static fn () => $answer);
            $first = $this->serve($address, static fn (int $port) => [self::slots($own, $port),
                "-$kind 12706 $named:$other\r\n", self::slots($own, $port)]);
            $client = new Client("redis+cluster://$address:$first", ['timeout' => 60.0]);
            self::assertSame('v', $client->get('foo'), "$kind $named:$other");
        }
    }

    /** @return iterable<int, array{string}> */
    public function wrong(): iterable
    {
        foreach (['MOVED', 'MOVED 1', 'MOVED 1 host', 'MOVED 1 host:', 'MOVED 1 host:99999', 'ASK 1 :', 'ASK 1 a b:1',
            'ASK 1 [::1:1'] as $error) {
            yield [$error];
        }
    }

    /** @dataProvider wrong */
    public function testARedirectWithoutAServerIsRefused(string $error): void
    {
        $first = $this->serve('127.0.0.1', static fn (int $port) => [self::slots('', $port), "-$error\r\n"]);
        $this->expectException(ProtocolException::class);
        $this->expectExceptionMessage('expected the host and the port');
        (new Client("redis+cluster://127.0.0.1:$first"))->get('foo');
    }

    public function testATransactionFollowsARedirect(): void
    {
        $other = $this->serve('[::1]', static fn (int $port) => ["+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"]);
        $first = $this->serve('[::1]', static fn (int $port) => [self::slots('', $port),
            "+OK\r\n-MOVED 12706 ::1:$other\r\n-EXECABORT discarded\r\n", self::slots('', $port)]);
        $client = new Client("redis+cluster://[::1]:$first");
        self::assertSame([1], $client->transaction(static fn ($queue) => $queue->incr('foo')));
    }
}
