<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Channels\ChannelClosed;
use Undercroft\Channels\Delivery;
use Undercroft\Channels\EmbeddedLink;
use Undercroft\Channels\Link;
use Undercroft\Channels\Received;
use Undercroft\Channels\RemoteLink;
use Undercroft\Connection\EmbeddedConnection;

/**
 * A bounded queue of messages between processes. Compatible with Python's `undercroft.Channel`, and
 * with Rust and C.
 *
 *     $jobs = new Undercroft\Channel($client, 'jobs', bound: 100);
 *     $jobs->sendText('resize');                      // here
 *     echo $jobs->receive()->bytes;                   // in another process
 *
 * Messages are bytes, text and arrays. A timeout is a number of seconds: 0 does not wait, and null
 * waits without limit. A client with a `redis://`, `tls://` or `unix://` URL has the weaker
 * guarantees that docs/channels.md lists.
 *
 * @implements \IteratorAggregate<int, Received>
 */
final class Channel implements \Countable, \IteratorAggregate
{
    private readonly Link $link;

    /**
     * @param Client $client the client whose store or server has the channel; its prefix and
     *     serializer are ignored
     * @param int $bound the number of messages at which send() waits; 0 means no bound
     * @param int|float|null $ttl seconds after which a message of 32 KiB or more in a store is dropped
     *     if nothing receives it; null for never
     * @param int|float $visibility seconds after which a message that a consumer on a server holds
     *     goes to another one; an embedded consumer holds it until it dies
     *
     * @throws ArgumentException
     */
    public function __construct(
        Client $client,
        string $name,
        int $bound = 1000,
        int|float|null $ttl = null,
        int|float $visibility = 60,
    ) {
        if ($name === '') {
            throw new ArgumentException('expected the name of a channel, got an empty one');
        }
        if ($bound < 0) {
            throw new ArgumentException("expected a bound of 0 or more messages, got $bound");
        }
        foreach (['a time to live' => $ttl ?? 1, 'a visibility' => $visibility] as $what => $seconds) {
            if (!($seconds > 0 && $seconds < 2 ** 53)) {
                throw new ArgumentException("expected $what of more than 0 seconds, got $seconds");
            }
        }
        $milliseconds = $ttl === null ? 0 : max(1, (int) round($ttl * 1000));
        $connection = $client->connection();
        $this->link = $connection instanceof EmbeddedConnection
            ? new EmbeddedLink($connection, $name, $bound, $milliseconds)
            : new RemoteLink(new Client($connection), $name, $bound, (float) $visibility);
    }

    /**
     * Sends bytes, and waits while the channel is full. Returns false if it is still full after the
     * timeout. O(bytes).
     *
     * @throws ChannelClosed if the channel is closed, also during the wait
     */
    public function send(string $bytes, int|float|null $timeout = null): bool
    {
        return $this->link->send('b', $bytes, self::seconds($timeout));
    }

    /**
     * Sends a text, like send().
     *
     * @throws ArgumentException if the text is not UTF-8
     */
    public function sendText(string $text, int|float|null $timeout = null): bool
    {
        if (preg_match('//u', $text) !== 1) {
            throw new ArgumentException('expected a text in UTF-8, got ' . bin2hex(substr($text, 0, 8)));
        }
        return $this->link->send('s', $text, self::seconds($timeout));
    }

    /**
     * Sends an array in C order, like send().
     *
     * @param string $dtype the type of the array's items in numpy's notation, such as `<f8`
     * @param list<int> $shape
     */
    public function sendArray(string $dtype, array $shape, string $items, int|float|null $timeout = null): bool
    {
        return $this->link->sendArray($dtype, $shape, $items, self::seconds($timeout));
    }

    /**
     * Removes and returns the first message, and waits for it. Returns null if none arrives within
     * the timeout. If the process dies before it has processed the message, the message is lost; see
     * hold(). O(bytes).
     *
     * @throws ChannelClosed if the channel is closed and empty
     */
    public function receive(int|float|null $timeout = null): ?Received
    {
        return $this->link->receive(self::seconds($timeout));
    }

    /**
     * Receives the first message and holds it until the delivery is acknowledged, released or
     * destroyed. If this process dies first, another consumer receives the message. Returns null if
     * none arrives within the timeout.
     *
     *     $delivery = $jobs->hold();
     *     resize($delivery->message->bytes);
     *     $delivery->ack();
     *
     * @throws ChannelClosed if the channel is closed and empty
     */
    public function hold(int|float|null $timeout = null): ?Delivery
    {
        return $this->link->hold(self::seconds($timeout));
    }

    /** Removes and returns messages until the channel is closed and empty. */
    public function getIterator(): \Generator
    {
        try {
            for (;;) {
                yield $this->link->receive(null);
            }
        } catch (ChannelClosed) {
        }
    }

    /** Returns the number of messages, without held ones. O(1). */
    public function count(): int
    {
        return $this->link->length();
    }

    public function isClosed(): bool
    {
        return $this->link->isClosed();
    }

    /**
     * Closes the channel for all processes. Producers get ChannelClosed, also those that wait.
     * Consumers first receive the remaining messages.
     */
    public function close(): void
    {
        $this->link->close();
    }

    /** Deletes all messages. The name then refers to a new, open channel. O(messages). */
    public function delete(): void
    {
        $this->link->delete();
    }

    private static function seconds(int|float|null $timeout): ?float
    {
        if ($timeout !== null && !($timeout >= 0 && $timeout < 1e12)) {
            throw new ArgumentException("expected a timeout of 0 or more seconds, or null, got $timeout");
        }
        return $timeout === null ? null : (float) $timeout;
    }
}
