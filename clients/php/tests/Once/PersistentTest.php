<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\Client;
use Undercroft\Tests\Servers;

/**
 * Tests persistent connections in a PHP process that serves many requests. The next request must
 * reuse the connection and see no state from the previous request, however that request ended.
 */
final class PersistentTest extends TestCase
{
    private const CLEAN = ['db' => '3', 'sub' => '0', 'psub' => '0', 'multi' => '-1', 'user' => 'default', 'name' => '',
        'resp' => '2'];

    /** @var list<int> the ports of PHP's built-in servers */
    private static array $ports = [];

    /** The index in `$ports` of the server that requests currently use. */
    private static int $serving = 0;

    private static int $redis;

    private static string $socket;

    private static Client $direct;

    public static function setUpBeforeClass(): void
    {
        [self::$redis, self::$socket] = Servers::redis();
        self::$direct = new Client('tcp://127.0.0.1:' . self::$redis . '/3', ['native' => false]);
        self::$direct->rawCommand('ACL', 'SETUSER', 'ada', 'on', '>password', '~*', '+@all');
        self::$direct->mSet(['k' => 'three', 'secret' => 'of another request', 'reset' => 'RESET',
            'large' => str_repeat('x', 6_000_000)]);
        $extension = getenv('UNDERCROFT_EXTENSION');
        $load = self::isNative() && $extension ? ['-d', "extension=$extension"] : [];
        // The second server runs without loadable extensions such as `sockets`.
        foreach (self::isNative() ? [$load] : [$load, ['-n']] as $options) {
            self::$ports[] = $port = Servers::port();
            Servers::start([PHP_BINARY, ...$options, '-d', 'display_errors=0', '-S', "127.0.0.1:$port",
                dirname(__DIR__) . '/persistent.php'], $port);
        }
    }

    private static function isNative(): bool
    {
        return getenv('UNDERCROFT_ENGINE') === 'native';
    }

    protected function setUp(): void
    {
        self::$serving = str_contains($this->getName(), 'without extensions') ? 1 : 0;
    }

    /** @param array<string, string> $more */
    private static function ask(string $what, string $url, array $more = []): string
    {
        $query = http_build_query(['do' => $what, 'url' => $url] + (self::isNative() ? ['native' => 1] : []) + $more);
        $context = stream_context_create(['http' => ['ignore_errors' => true, 'timeout' => 900]]);
        return (string) file_get_contents('http://127.0.0.1:' . self::$ports[self::$serving] . "/?$query", false, $context);
    }

    /** @return iterable<string, array{string}> */
    public function urls(): iterable
    {
        yield 'TCP' => ['tcp://127.0.0.1:%d/3'];
        yield 'a unix socket' => ['unix://%s?db=3'];
        if (!self::isNative()) {
            yield 'TCP without extensions' => ['tcp://127.0.0.1:%d/3'];
        }
    }

    private static function url(string $pattern): string
    {
        return sprintf($pattern, str_starts_with($pattern, 'tcp') ? self::$redis : self::$socket);
    }

    /** @dataProvider urls */
    public function testTheNextRequestInheritsNoState(string $pattern): void
    {
        $url = self::url($pattern);
        $harmless = ['nothing', 'select', 'user', 'name', 'protocol', 'watch', 'raw watch', 'transaction'];
        $others = ['subscription', 'raw subscription', 'monitor', 'unread', 'unread reset', 'silent', 'fatal',
            'exception', 'exit', 'thrown', 'memory'];
        foreach ([...$harmless, ...$others] as $what) {
            $first = self::ask('nothing', $url);
            self::assertMatchesRegularExpression('~^\d+$~D', $first, $what);
            self::assertSame($first, self::ask('nothing', $url), "before $what: the connection is kept");
            self::ask($what, $url);
            // If the connection still watched this key, this write would make the next transaction
            // fail.
            self::$direct->set('k', 'three');
            self::$direct->publish('news', 'for nobody');
            $text = self::ask('look', $url);
            $seen = json_decode($text, true);
            self::assertIsArray($seen, "after $what: $text");
            self::assertSame('three', $seen['value'], "after $what");
            self::assertSame(['three'], $seen['ran'], "after $what");
            self::assertEquals(self::CLEAN, $seen['state'], "after $what");
            self::assertSame('three', self::$direct->get('k'), "after $what");
            if (in_array($what, ['nothing', 'select', 'user', 'name'], true)) {
                self::assertSame((int) $first, $seen['id'], "after $what: the same connection");
            }
            if (in_array($what, ['unread', 'unread reset', 'fatal', 'exception', 'exit', 'thrown', 'memory'], true)) {
                self::assertNotSame((int) $first, $seen['id'], "after $what: another connection");
            }
        }
    }

    /** @dataProvider urls */
    public function testTwoObjectsNeverShareAConnection(string $pattern): void
    {
        $url = self::url($pattern);
        self::$direct->del('k4');
        // Replace only the database number at the end, because the socket's path may also contain a
        // 3.
        $other = substr($url, 0, -1) . '4';
        for ($i = 0; $i < 3; $i++) {
            $text = self::ask('two', $url, ['other' => $other]);
            $answers = json_decode($text, true);
            self::assertIsArray($answers, "two: $text");
            [$one, $two, $ofThree, $ofFour, $stillOfThree] = $answers;
            self::assertNotSame($one, $two);
            self::assertSame(['three', null, 'three'], [$ofThree, $ofFour, $stillOfThree]);
            $ids[] = [$one, $two];
        }
        self::assertSame($ids[0], $ids[2], 'both are kept');
        self::assertSame('same', self::ask('again', $url));
        self::assertSame('another', self::ask('fork', $url), 'a child does not take what its parent left');
    }

    public function testAConnectionClosedByTheServerIsReplaced(): void
    {
        $url = self::url('tcp://127.0.0.1:%d/3');
        $id = self::ask('nothing', $url);
        self::$direct->client('kill', ['id' => $id]);
        $next = self::ask('nothing', $url);
        self::assertMatchesRegularExpression('~^\d+$~D', $next);
        self::assertNotSame($id, $next);
    }

    public function testNamesTellConnectionsApart(): void
    {
        $url = self::url('tcp://127.0.0.1:%d/3');
        $one = self::ask('nothing', $url, ['name' => 'one']);
        $two = self::ask('nothing', $url, ['name' => 'two']);
        self::assertNotSame($one, $two);
        self::assertSame($one, self::ask('nothing', $url, ['name' => 'one']));
    }
}
