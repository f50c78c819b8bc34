<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\ArgumentException;
use Undercroft\Client;
use Undercroft\Connection\Address;
use Undercroft\ConnectionException;
use Undercroft\ServerException;
use Undercroft\Tests\Forked;
use Undercroft\Tests\Servers;
use Undercroft\TimeoutException;

/** Tests addresses and connection options against Redis servers. */
final class ConnectionTest extends TestCase
{
    private static int $port;

    private static string $socket;

    public static function setUpBeforeClass(): void
    {
        [self::$port, self::$socket] = Servers::redis('--enable-debug-command', 'local');
        self::client('unix://' . self::$socket)->rawCommand('ACL', 'SETUSER', 'ada', 'on', '>pass/w@rd', '~*', '+@all');
    }

    private static function client(string|array $place, array $options = []): Client
    {
        return new Client($place, $options + ['native' => getenv('UNDERCROFT_ENGINE') === 'native']);
    }

    public function testUrls(): void
    {
        $all = [
            'tcp://h' => ['tcp', 'h', 6379, '', null, null, 0],
            'redis://h:7/3' => ['tcp', 'h', 7, '', null, null, 3],
            'redis://:p%40ss@h?db=2' => ['tcp', 'h', 6379, '', null, 'p@ss', 2],
            'redis://u:p@[::1]:7' => ['tcp', '[::1]', 7, '', 'u', 'p', 0],
            'rediss://h' => ['tls', 'h', 6379, '', null, null, 0],
            'unix:///a/b.sock?db=4' => ['unix', '127.0.0.1', 6379, '/a/b.sock', null, null, 4],
            'unix://u:p@/a' => ['unix', '127.0.0.1', 6379, '/a', 'u', 'p', 0],
        ];
        foreach ($all as $url => $parts) {
            $a = Address::of($url);
            $read = [$a->scheme, $a->host, $a->port, $a->path, $a->username, $a->password, $a->database];
            self::assertSame($parts, $read, $url);
        }
        self::assertSame(['a:1', 'b:6379'], Address::of('redis+cluster://a:1,b')->nodes);
        $wrong = ['h', 'http://h', 'tcp://h:99999', 'tcp://h:x', 'tcp://h/x', 'redis+cluster://h/1', 'tcp://a:b:c'];
        foreach ($wrong as $url) {
            try {
                Address::of($url);
                self::fail("expected an error of $url");
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected', $error->getMessage());
            }
        }
        $wrong = ['tcp://h?timeout=abc', 'unix:///a?timeout=', 'tcp://h?connect_timeout=1s', 'tcp://h?time=1',
            'redis+cluster://h?timeout=-1', 'tcp://h?db[]=1', ['password' => []], ['username' => true], ['host' => 1],
            ['host' => ['h']], ['port' => []], ['port' => -1], ['database' => true]];
        foreach ($wrong as $place) {
            try {
                self::client($place);
                self::fail('expected an error of ' . json_encode($place));
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected', $error->getMessage());
            }
        }
        foreach ([['timeout' => 'abc'], ['timeout' => NAN], ['connect_timeout' => []], ['spin' => '5x'],
            ['protocol' => 'three']] as $options) {
            try {
                self::client('tcp://h', $options);
                self::fail('expected an error of ' . array_key_first($options));
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected', $error->getMessage());
            }
        }
        self::assertSame('[::1]', Address::of(['host' => '::1'])->host);
        self::assertSame('123', Address::of(['password' => 123])->password);
        foreach ([['password' => ''], 'tcp://:@h', 'tcp://h?password='] as $place) {
            self::assertNull(Address::of($place)->password, 'an empty password is none');
        }
        self::assertStringNotContainsString('secret', (string) Address::of('tcp://u:secret@h'));
    }

    public function testTheErrorNamesTheMissingExtension(): void
    {
        if (extension_loaded('undercroft')) {
            self::markTestSkipped('the extension is loaded');
        }
        $this->expectException(ArgumentException::class);
        $this->expectExceptionMessage("extension 'undercroft'");
        new Client('undercroft://cache');
    }

    public function testWaysToConnect(): void
    {
        $port = self::$port;
        self::client("tcp://127.0.0.1:$port/5")->set('k', 'five');
        self::assertSame('five', self::client('unix://' . self::$socket . '?db=5')->get('k'));
        self::assertSame('five', self::client(['host' => '127.0.0.1', 'port' => $port, 'database' => 5])->get('k'));
        self::assertSame('five', self::client("tcp://127.0.0.1:$port/5?timeout=2.5&protocol=3")->get('k'));
        self::assertSame('five', self::client(['host' => '127.0.0.1', 'port' => $port, 'database' => 5,
            'password' => ''])->get('k'));
        self::assertSame('five', self::client(['path' => self::$socket, 'database' => 5])->get('k'));
        $ada = self::client("redis://ada:pass%2Fw%40rd@127.0.0.1:$port/5", ['protocol' => 3, 'client_name' => 'tests']);
        self::assertSame('five', $ada->get('k'));
        self::assertSame('tests', $ada->client('getname'));
        self::assertSame(['tests'], array_column(array_filter($ada->client('list'),
            static fn (array $each): bool => $each['name'] === 'tests'), 'name'));
        $this->expectException(ServerException::class);
        self::client("redis://ada:wrong@127.0.0.1:$port")->get('k');
    }

    public function testAConnectionClosedByTheServerIsReopened(): void
    {
        $client = self::client('tcp://127.0.0.1:' . self::$port);
        $client->set('k', 'v');
        $id = $client->client('id');
        $other = self::client('unix://' . self::$socket);
        $other->client('kill', ['id' => $id]);
        self::assertSame('v', $client->get('k'));
        self::assertNotSame($id, $client->client('id'));
        $other->client('kill', ['id' => $client->client('id')]);
        try {
            self::assertTrue($client->set('k', 'w'));
        } catch (ConnectionException) {
            // The server may have run the write, so the client must not resend it.
            self::assertTrue($client->set('k', 'w'));
        }
    }

    public function testTimeLimits(): void
    {
        $client = self::client('tcp://127.0.0.1:' . self::$port, ['timeout' => 0.3]);
        self::assertNull($client->blPop('nothing', 0.5), 'a command that waits is given its time');
        try {
            $client->rawCommand('DEBUG', 'SLEEP', '0.6');
            self::fail('expected an error');
        } catch (TimeoutException | ServerException $error) {
            if ($error instanceof ServerException) {
                self::markTestSkipped('DEBUG is not allowed on this server');
            }
            self::assertStringContainsString('0.3 s', $error->getMessage());
        }
    }

    /** @return array<string, array{callable}> */
    public static function servers(): array
    {
        return [
            'redis-server' => [Servers::redis(...)],
            'undercroft serve' => [Servers::undercroft(...)],
        ];
    }

    /** @dataProvider servers */
    public function testTls(callable $start): void
    {
        $folder = Servers::folder();
        exec("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
            . "'subjectAltName=IP:127.0.0.1' -keyout $folder/key.pem -out $folder/cert.pem 2>/dev/null",
            $lines, $status);
        if ($status !== 0) {
            self::markTestSkipped('no openssl here');
        }
        $tls = Servers::port();
        try {
            $start('--tls-port', (string) $tls, '--tls-cert-file', "$folder/cert.pem", '--tls-key-file',
                "$folder/key.pem", '--tls-ca-cert-file', "$folder/cert.pem", '--tls-auth-clients', 'no');
        } catch (\RuntimeException) {
            self::markTestSkipped('this server has no TLS');
        }
        $client = self::client("tls://127.0.0.1:$tls", ['ssl' => ['cafile' => "$folder/cert.pem"]]);
        foreach ([false, true] as $persistent) {
            $told = Forked::run('reads', "tls://127.0.0.1:$tls",
                ['ssl' => ['cafile' => "$folder/cert.pem"], 'persistent' => $persistent]);
            self::assertSame(['parent' => 0, 'child' => 0, 'status' => 0, 'set' => true], $told, 'a fork');
        }
        $value = random_bytes(300_000);
        self::assertTrue($client->set('k', $value));
        self::assertSame($value, $client->get('k'));
        self::assertCount(1000, $client->pipeline(static function ($pipe): void {
            for ($i = 0; $i < 1000; $i++) {
                $pipe->echo(str_repeat('x', $i));
            }
        }));
        self::assertTrue($client->set('k', "a\r\nb"));
        self::assertSame(["a\r\nb", null], $client->mGet('k', 'none'));
        foreach ([2, 3] as $protocol) {
            $options = ['ssl' => ['cafile' => "$folder/cert.pem"], 'protocol' => $protocol];
            $loop = self::client("tls://127.0.0.1:$tls", $options)->pubSubLoop(['subscribe' => 'news']);
            self::assertSame('subscribe', $loop->next(5.0)->kind);
            $client->pipeline()->publish('news', 'one')->publish('news', str_repeat('x', 100_000))->execute();
            self::assertSame('one', $loop->next(5.0)->payload);
            self::assertSame(100_000, strlen($loop->next(5.0)->payload));
            self::assertNull($loop->next(0.01));
        }
        // A client that verifies certificates does not reuse a persistent connection that was
        // opened without verification.
        $trusting = ['verify_peer' => false, 'verify_peer_name' => false];
        $careless = self::client("tls://127.0.0.1:$tls", ['ssl' => $trusting, 'persistent' => true]);
        $first = $careless->client('id');
        unset($careless);
        gc_collect_cycles();
        $again = self::client("tls://127.0.0.1:$tls", ['ssl' => $trusting, 'persistent' => true]);
        self::assertSame($first, $again->client('id'));
        unset($again);
        gc_collect_cycles();
        $this->expectException(ConnectionException::class);
        self::client("tls://127.0.0.1:$tls", ['persistent' => true])->get('k');
    }
}
