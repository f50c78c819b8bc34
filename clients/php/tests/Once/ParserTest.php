<?php

declare(strict_types=1);

namespace Undercroft\Tests\Once;

use PHPUnit\Framework\TestCase;
use Undercroft\ConnectionException;
use Undercroft\ProtocolException;
use Undercroft\Resp\Encoder;
use Undercroft\Resp\Parser;
use Undercroft\Resp\Push;
use Undercroft\Resp\Slot;
use Undercroft\Resp\Source;
use Undercroft\ServerException;

/** Parses replies of every kind, with their bytes split at arbitrary positions. */
final class ParserTest extends TestCase
{
    private static function parser(string $bytes, ?callable $portion = null): Parser
    {
        return new Parser(new class ($bytes, $portion ?? static fn (): int => 1) implements Source {
            private int $at = 0;

            public function __construct(private readonly string $bytes, private readonly \Closure $portion)
            {
            }

            public function read(int $wanted): string
            {
                $part = substr($this->bytes, $this->at, min($wanted, ($this->portion)()));
                $this->at += strlen($part);
                return $part === '' ? throw new ConnectionException('the end') : $part;
            }
        });
    }

    public function testEveryKindOfReplyByteByByte(): void
    {
        $bytes = "+OK\r\n+\r\n:5\r\n:-7\r\n:+3\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
            . "*3\r\n:1\r\n$1\r\na\r\n*1\r\n+x\r\n"
            . "_\r\n#t\r\n#f\r\n,1.5\r\n,inf\r\n,-inf\r\n(123456789012345678901\r\n=7\r\ntxt:abc\r\n~2\r\n:1\r\n:2\r\n"
            . "%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*0\r\n|1\r\n+ttl\r\n:5\r\n:9\r\n$4\r\n\r\n\r\n\r\n$6\r\n\r\n\$1\r\n\r\n";
        $parser = self::parser($bytes);
        $expected = ['OK', '', 5, -7, 3, 'hello', '', null, null, [], [1, 'a', ['x']], null, true, false, 1.5,
            INF, -INF, '123456789012345678901', 'abc', [1, 2], ['a' => 1, 'b' => []], 9, "\r\n\r\n", "\r\n\$1\r\n"];
        foreach ($expected as $number => $value) {
            self::assertSame($value, $parser->next(), "reply $number");
        }
        self::assertFalse($parser->hasBytes());
        $error = self::parser("-WRONGTYPE no\r\n")->next();
        self::assertInstanceOf(ServerException::class, $error);
        self::assertSame(['WRONGTYPE', 'WRONGTYPE no'], [$error->kind(), $error->getMessage()]);
        self::assertInstanceOf(ServerException::class, self::parser("!5\r\nERR x\r\n")->next());
        $push = self::parser(">2\r\n+message\r\n+x\r\n")->next();
        self::assertInstanceOf(Push::class, $push);
        self::assertSame(['message', 'x'], $push->items);
    }

    public function testRandomRepliesInRandomPortions(): void
    {
        $seed = (int) (getenv('UNDERCROFT_SEED') ?: random_int(1, 1 << 30));
        mt_srand($seed);
        for ($round = 0; $round < 300; $round++) {
            $values = $bytes = [];
            for ($count = mt_rand(1, 20); $count > 0; $count--) {
                [$values[], $bytes[]] = self::random(0);
            }
            $parser = self::parser(implode('', $bytes), static fn (): int => mt_rand(1, 1 << mt_rand(0, 12)));
            self::assertSame($values, $parser->many(count($values)), "UNDERCROFT_SEED=$seed, round $round");
            self::assertFalse($parser->hasBytes());
        }
    }

    /** @return array{mixed, string} a value and its bytes */
    private static function random(int $depth): array
    {
        switch (mt_rand(0, $depth > 3 ? 3 : 4)) {
            case 0:
                $number = mt_rand() - (1 << 30);
                return [$number, ":$number\r\n"];
            case 1:
                return [null, "$-1\r\n"];
            case 2:
            case 3:
                $text = '';
                for ($length = mt_rand(0, 1 << mt_rand(0, 10)); strlen($text) < $length;) {
                    $text .= ["\r\n", "\r", "\n", "\$3\r\n", 'abc', "\0", "*1\r\n"][mt_rand(0, 6)];
                }
                return [$text, '$' . strlen($text) . "\r\n$text\r\n"];
            default:
                $items = [];
                $bytes = '';
                for ($count = mt_rand(0, 8); $count > 0; $count--) {
                    [$items[], $more] = self::random($depth + 1);
                    $bytes .= $more;
                }
                return [$items, '*' . count($items) . "\r\n$bytes"];
        }
    }

    /** @return iterable<string, array{string}> */
    public function garbage(): iterable
    {
        foreach (["\r\n", "hello\r\n", "$\r\n", "\$x\r\n", "$-2\r\n", "$3\r\nabcd\r\n",
            "$3\r\nabcde", "$2\r\na\r\nb\r\n",
            ":x\r\n", ":1.5\r\n", ":99999999999999999999\r\n", "*x\r\n", "*-2\r\n", "#x\r\n", ",x\r\n", "(x\r\n",
            "%1\r\n*0\r\n:1\r\n", "$9999999999999\r\n", str_repeat('+', 200_000), "GET / HTTP/1.1\r\n",
            str_repeat("*1\r\n", 1000)] as $bytes) {
            yield addcslashes(substr($bytes, 0, 20), "\0..\37") => [$bytes];
        }
    }

    /** @dataProvider garbage */
    public function testGarbageIsRefused(string $bytes): void
    {
        $this->expectException(ProtocolException::class);
        $this->expectExceptionMessage('expected');
        self::parser($bytes, static fn (): int => 65_536)->next();
    }

    public function testAnEndOfStreamWithinAReplyIsALostConnection(): void
    {
        $bytes = "*2\r\n$3\r\nabc\r\n$100\r\nabc";
        for ($end = 0; $end < strlen($bytes); $end++) {
            try {
                self::parser(substr($bytes, 0, $end))->next();
                self::fail("expected an error at $end");
            } catch (ConnectionException $error) {
                self::assertSame('the end', $error->getMessage());
            }
        }
    }

    public function testEncodedWordsRoundTrip(): void
    {
        self::assertSame("*3\r\n$3\r\nSET\r\n$1\r\n5\r\n$3\r\n0.1\r\n", Encoder::command(['SET', 5, 0.1]));
        foreach ([0.1, 1e300, -1.5, 2.0, 1e15, 123456789.123456789, PHP_FLOAT_EPSILON] as $number) {
            self::assertSame($number, (float) Encoder::word($number));
        }
        self::assertSame(['inf', '-inf', '3'], [Encoder::word(INF), Encoder::word(-INF), Encoder::word(3.0)]);
    }

    public function testSlotsAreThoseOfRedis(): void
    {
        foreach (['foo' => 12182, '' => 0, '123456789' => 12739, '{user}:a' => 5474, 'x{user}b' => 5474, '{}x' => 10595]
            as $key => $slot) {
            self::assertSame($slot, Slot::of((string) $key), "the slot of '$key'");
        }
    }
}
