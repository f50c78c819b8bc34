<?php

declare(strict_types=1);

namespace Undercroft\Tests\Commands;

use Undercroft\ArgumentException;
use Undercroft\Channel;
use Undercroft\Channels\ChannelClosed;
use Undercroft\ServerException;
use Undercroft\Tests\EngineCase;

/** Tests channels on every engine: a message arrives once, unchanged and in order. */
final class ChannelsTest extends EngineCase
{
    private function channel(int $bound = 1000, int|float $visibility = 60): Channel
    {
        $client = self::connect(['prefix' => 'other:', 'serializer' => 'json']);
        return new Channel($client, 'jobs', $bound, visibility: $visibility);
    }

    /** Expects no messages and no stored values. The names of consumers can remain. */
    private function expectNothingLeft(): void
    {
        self::assertSame([], preg_grep('/:consumers$/', $this->client->keys('*'), PREG_GREP_INVERT));
    }

    public function testMessagesOfEveryKindAndSizeArriveUnchanged(): void
    {
        $jobs = $this->channel();
        foreach ([0, 1, 32_767, 32_768, 65_536, 1_000_000] as $size) {
            $bytes = $size === 0 ? '' : random_bytes($size);
            $text = str_repeat("\u{e4}", intdiv($size, 2)) . str_repeat('x', $size % 2);
            self::assertTrue($jobs->send($bytes));
            self::assertTrue($jobs->sendText($text, 1));
            self::assertTrue($jobs->sendArray('|u1', [$size, 1], $bytes));
            self::assertCount(3, $jobs);
            $message = $jobs->receive();
            self::assertSame(['b', $bytes, null, null], [$message->kind, $message->bytes, $message->dtype, $message->shape]);
            $message = $jobs->receive(0);
            self::assertSame(['s', $text], [$message->kind, $message->bytes]);
            $delivery = $jobs->hold(1);
            $message = $delivery->message;
            self::assertSame(['a', $bytes, '|u1', [$size, 1]], [$message->kind, $message->bytes, $message->dtype,
                $message->shape]);
            self::assertTrue($delivery->ack());
            self::assertFalse($delivery->ack());
        }
        self::assertNull($jobs->receive(0));
        self::assertNull($jobs->hold(0.01));
        $this->expectNothingLeft();
    }

    public function testBoundIsHeld(): void
    {
        $jobs = $this->channel(2);
        self::assertTrue($jobs->send('one', 0));
        self::assertTrue($this->channel()->send('two', 0));
        self::assertFalse($jobs->send('three', 0));
        self::assertFalse($jobs->send(str_repeat('3', 40_000), 0.01));
        self::assertCount(2, $jobs);
        self::assertTrue($this->channel(0)->send('three', 0));
        self::assertSame(['one', 'two', 'three'], array_map(
            static fn () => $jobs->receive(0)->bytes,
            range(0, 2),
        ));
    }

    public function testHeldMessageReturnsToTheFront(): void
    {
        $jobs = $this->channel();
        array_map($jobs->send(...), ['one', 'two', str_repeat('3', 50_000)]);
        $first = $jobs->hold();
        $second = $jobs->hold();
        self::assertSame(['one', 'two', 1], [$first->message->bytes, $second->message->bytes, count($jobs)]);
        self::assertTrue($second->release());
        unset($first);
        foreach (['one', 'two', str_repeat('3', 50_000)] as $bytes) {
            $delivery = $jobs->hold(0);
            self::assertSame($bytes, $delivery->message->bytes);
            self::assertTrue($delivery->ack());
        }
        $this->expectNothingLeft();
    }

    public function testClosedChannelGivesItsMessagesOut(): void
    {
        $jobs = $this->channel();
        array_map($jobs->send(...), ['one', 'two']);
        self::assertFalse($jobs->isClosed());
        $this->channel()->close();
        self::assertTrue($jobs->isClosed());
        foreach ([static fn () => $jobs->send('late'), static fn () => $jobs->sendArray('<i4', [1], '1234')] as $send) {
            try {
                $send();
                self::fail('it is closed');
            } catch (ChannelClosed $closed) {
                self::assertStringContainsString('closed', $closed->getMessage());
            }
        }
        $seen = [];
        foreach ($jobs as $message) {
            $seen[] = $message->bytes;
        }
        self::assertSame(['one', 'two'], $seen);
        $jobs->delete();
        self::assertTrue($jobs->send('again'));
        $delivery = $jobs->hold();
        $jobs->send(str_repeat('x', 100_000));
        $jobs->delete();
        self::assertFalse($delivery->ack());
        self::assertFalse($jobs->isClosed());
        self::assertCount(0, $jobs);
        $this->expectException(ChannelClosed::class);
        $jobs->close();
        $jobs->hold();
    }

    public function testProcessesPassMessagesThroughAFullChannel(): void
    {
        $child = pcntl_fork();
        if ($child === 0) {
            // Another client, because a connection belongs to one process.
            $jobs = $this->channel(3);
            for ($number = 0; $number < 200; $number++) {
                $jobs->send((string) $number);
            }
            $jobs->close();
            posix_kill(getmypid(), SIGKILL);
        }
        $jobs = $this->channel(3);
        $seen = [];
        while (true) {
            try {
                $message = count($seen) % 3 === 0 ? $jobs->hold() : $jobs->receive();
            } catch (ChannelClosed) {
                break;
            }
            $seen[] = ($message->message ?? $message)->bytes;
            count($seen) % 3 !== 1 || self::assertTrue($message->ack());
        }
        pcntl_waitpid($child, $status);
        self::assertSame(array_map(strval(...), range(0, 199)), $seen);
    }

    public function testMessageOfAKilledProcessGoesToAnotherOne(): void
    {
        $this->channel()->send('one');
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = pcntl_fork();
        if ($child === 0) {
            $delivery = $this->channel(visibility: 0.001)->hold();
            fwrite($theirs, $delivery->message->bytes . "\n");
            while (true) {
                sleep(60);
            }
        }
        fclose($theirs);
        self::assertSame("one\n", fgets($ours));
        self::assertCount(0, $this->channel());
        posix_kill($child, SIGKILL);
        pcntl_waitpid($child, $status);
        self::assertSame('one', $this->channel()->receive()->bytes);
    }

    public function testDeliveryBelongsToItsProcess(): void
    {
        $jobs = $this->channel();
        $jobs->send('one');
        $delivery = $jobs->hold();
        $child = pcntl_fork();
        if ($child === 0) {
            try {
                $delivery->release();
                $code = 1;
            } catch (\LogicException $error) {
                $code = str_contains($error->getMessage(), 'belongs to process') ? 0 : 2;
            }
            unset($delivery);
            // End without destructors and without the parent's shutdown functions.
            $code === 0 ? posix_kill(getmypid(), SIGKILL) : posix_kill(getmypid(), SIGTERM);
        }
        pcntl_waitpid($child, $status);
        self::assertSame(SIGKILL, pcntl_wtermsig($status));
        self::assertCount(0, $this->channel());
        self::assertTrue($delivery->ack());
    }

    public function testMessagesOfOtherLanguages(): void
    {
        $jobs = $this->channel();
        $key = 'undercroft:channel:{jobs}';
        $tree = static fn (string $packed): string => "\xc1UOm" . pack('V', 4 + strlen($packed)) . "\0\0\0\0$packed";
        $items = [
            'btext' => ['b', 'text'],
            "s\xff" => ['b', "s\xff"],
            $tree("\xa5hello") => ['s', 'hello'],
            $tree("\xd9\x02ab") => ['s', 'ab'],
            $tree("\xda\0\x02ab") => ['s', 'ab'],
            $tree("\x93\1\2\3") => ['m', ''],
            'unknown' => ['b', 'unknown'],
        ];
        foreach ($items as $item => $wanted) {
            $this->client->rPush($key, $item);
            $message = $jobs->receive(0);
            self::assertSame($wanted, [$message->kind, $message->bytes], bin2hex($item));
        }
        // The value of a message has expired, so the message is skipped.
        $this->client->rPush($key, 'rgone', 'bnext');
        self::assertSame('next', $jobs->receive(0)->bytes);
        $this->client->rPush($key, 'rgone', 'bnext');
        $delivery = $jobs->hold(0);
        self::assertSame('next', $delivery->message->bytes);
        $delivery->ack();
        // A pickle stays in the channel.
        $this->client->rPush($key, "\xc1UOp\0\0\0\0");
        foreach ([$jobs->receive(...), $jobs->hold(...)] as $call) {
            try {
                $call(0);
                self::fail('it is a pickle');
            } catch (ServerException $error) {
                self::assertStringContainsString('pickle', $error->getMessage());
            }
            self::assertCount(1, $jobs);
        }
    }

    public function testBadArgumentsChangeNothing(): void
    {
        $jobs = $this->channel();
        $client = $this->client;
        $calls = [
            static fn () => new Channel($client, ''),
            static fn () => new Channel($client, 'jobs', -1),
            static fn () => new Channel($client, 'jobs', ttl: 0),
            static fn () => new Channel($client, 'jobs', visibility: NAN),
            static fn () => $jobs->send('x', -1),
            static fn () => $jobs->receive(NAN),
            static fn () => $jobs->sendText("\xff"),
            static fn () => $jobs->sendArray('<f8', [2], 'too short'),
            static fn () => $jobs->sendArray('<f8', [-1], ''),
            static fn () => $jobs->sendArray("'", [1], '12345678'),
        ];
        foreach ($calls as $number => $call) {
            try {
                $call();
                self::fail("call $number succeeded");
            } catch (ArgumentException | \Undercroft\StoreException $error) {
                self::assertStringContainsString('expected', $error->getMessage(), "call $number");
            }
        }
        self::assertSame(0, $client->dbSize());
    }
}
