<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;
use Undercroft\Commands\Table;
use Undercroft\ConnectionException;
use Undercroft\Native\Connection as Link;
use Undercroft\ServerException;
use Undercroft\TimeoutException;

/**
 * A connection over TCP or a Unix socket whose I/O, encoding and parsing run in the extension.
 * Otherwise it behaves like StreamConnection.
 */
final class NativeConnection implements Connection
{
    /**
     * The extension's connection, which frequent calls use directly. Null until the next call
     * connects.
     */
    private ?Link $link = null;

    private bool $isPinned = false;

    public function __construct(private readonly Address $address, private readonly Options $options)
    {
    }

    public function execute(array $words, ?float $wait = null): mixed
    {
        $link = $this->link ?? $this->connect();
        try {
            return $wait === null ? $link->execute($words) : $link->execute($words, $this->limit($wait));
        } catch (ConnectionException $error) {
            if ($this->isUnsent($error)) {
                return $this->execute($words, $wait);
            }
            $mayRepeat = $this->options->retry && !$this->isPinned && !$error instanceof TimeoutException
                && isset(Table::READS[strtoupper((string) $words[0])]);
            $this->close();
            return $mayRepeat ? $this->connect()->execute($words) : throw $error;
        } catch (\TypeError | \ValueError $error) {
            throw new ArgumentException($error->getMessage());
        }
    }

    public function pipeline(array $commands): array
    {
        return $commands === [] ? [] : $this->guarded(static fn (Link $link): array => $link->pipeline($commands));
    }

    public function transaction(array $commands): ?array
    {
        $replies = $this->pipeline([['MULTI'], ...$commands, ['EXEC']]);
        $this->isPinned = false;
        return self::executed($replies);
    }

    /**
     * Returns a transaction's result from the replies to MULTI, its commands and EXEC.
     *
     * @throws ServerException if a command was refused, in which case no command ran
     */
    public static function executed(array $replies): ?array
    {
        $executed = array_pop($replies);
        if ($executed instanceof ServerException) {
            // The first refused command's error says more than EXEC's error.
            foreach ($replies as $reply) {
                if ($reply instanceof ServerException) {
                    throw $reply;
                }
            }
            throw $executed;
        }
        return $executed;
    }

    public function send(array ...$commands): void
    {
        $this->guarded(static fn (Link $link) => $link->send($commands));
        $this->isPinned = true;
    }

    public function receive(?float $timeout): mixed
    {
        $link = $this->link
            ?? throw new ConnectionException("no connection to $this->address; subscribe before waiting for messages");
        try {
            return $link->receive($timeout ?? -1.0);
        } catch (ConnectionException $error) {
            // In a forked child, isUnsent() throws an error that says the subscriptions belong to
            // the parent.
            $this->isUnsent($error);
            throw $error;
        }
    }

    public function pin(bool $isPinned): void
    {
        $this->isPinned = $isPinned;
    }

    public function isPinned(): bool
    {
        return $this->isPinned;
    }

    public function another(): Connection
    {
        return new self($this->address, $this->options);
    }

    public function hasMaps(): bool
    {
        return $this->options->protocol === 3;
    }

    public function close(): void
    {
        // Clear the property first: a signal handler that runs now must not use the link that is
        // being closed.
        [$link, $this->link] = [$this->link, null];
        $link?->close();
        $this->isPinned = false;
    }

    /**
     * Returns the number of seconds that the extension waits for a blocking command. A negative
     * number means no limit.
     */
    private function limit(float $wait): float
    {
        return $wait <= 0.0 || $this->options->timeout <= 0.0 ? -1.0 : $wait + $this->options->timeout;
    }

    private function guarded(callable $call): mixed
    {
        try {
            return $call($this->link ?? $this->connect());
        } catch (ConnectionException $error) {
            if ($this->isUnsent($error)) {
                return $this->guarded($call);
            }
            $this->close();
            throw $error;
        } catch (\TypeError | \ValueError $error) {
            throw new ArgumentException($error->getMessage());
        }
    }

    /**
     * Returns whether the failed command was never sent, because the connection belongs to the
     * parent process, or because a fatal error or a signal handler's exception ended the previous
     * call. The next call reconnects.
     */
    private function isUnsent(ConnectionException $error): bool
    {
        $code = $error->getCode();
        if (!in_array($code, [Link::INHERITED, Link::ABANDONED, Link::CLOSED], true)) {
            return false;
        }
        $wasPinned = $this->isPinned;
        $this->link = null;
        $this->isPinned = false;
        // After a fatal error or exit, no running code relies on the server's state for this
        // connection.
        if ($wasPinned && $code !== Link::ABANDONED) {
            throw $code === Link::INHERITED ? self::ofParent($this->address) : $error;
        }
        return true;
    }

    /**
     * Returns the error for a forked child that tries to use its parent's watches or subscriptions.
     */
    public static function ofParent(Address $address): ConnectionException
    {
        return new ConnectionException("the connection to $address belongs to the parent process, as do its watches and "
            . 'subscriptions; watch and subscribe after the fork');
    }

    private function connect(): Link
    {
        do {
            $link = $this->greeted();
        } while ($link === null);
        return $this->link = $link;
    }

    /**
     * Returns a connection whose login, client name and database are set. Returns null if a reused
     * connection could not be reset.
     */
    private function greeted(): ?Link
    {
        $persistent = $this->options->persistent;
        $link = new Link($this->address->target(), $this->options->connectTimeout, $this->options->timeout,
            $persistent === false ? null : (string) $persistent, $this->options->spin);
        $commands = $this->address->greeting($this->options);
        $isReused = $link->isReused();
        if ($isReused) {
            array_unshift($commands, ['RESET']);
        }
        try {
            $replies = $commands === [] ? [] : $link->pipeline($commands);
        } catch (ConnectionException $error) {
            return $isReused ? null : throw $error;
        }
        if ($isReused && array_shift($replies) !== 'RESET') {
            $link->close();
            return null;
        }
        foreach ($replies as $reply) {
            if ($reply instanceof ServerException) {
                $link->close();
                throw $reply;
            }
        }
        return $link;
    }
}
