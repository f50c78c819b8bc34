<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;
use Undercroft\Commands\Table;
use Undercroft\ConnectionException;
use Undercroft\Native\Connection as Link;
use Undercroft\ServerException;
use Undercroft\TimeoutException;

/** A connection over TCP or a unix socket by the extension, which writes and parses; otherwise as in pure PHP. */
final class NativeConnection implements Connection
{
    /** The connection, for calls that need nothing more; null until the next call makes it. */
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
     * What a transaction answers, of the replies to MULTI, its commands and EXEC.
     *
     * @throws ServerException where a command was refused, so that nothing ran
     */
    public static function executed(array $replies): ?array
    {
        $executed = array_pop($replies);
        if ($executed instanceof ServerException) {
            // The first command that was refused says more than EXEC does.
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
            ?? throw new ConnectionException("no connection to $this->address, so that nothing can come from it");
        try {
            return $link->receive($timeout ?? -1.0);
        } catch (ConnectionException $error) {
            // In a child it throws that the subscriptions are the parent's.
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
        // First, as a signal's handler that comes meanwhile must not find the link that is about to be closed.
        [$link, $this->link] = [$this->link, null];
        $link?->close();
        $this->isPinned = false;
    }

    /** How long the extension waits for a command that waits by itself; negative is without end. */
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
     * Whether nothing was sent, as the connection is of the process that forked this one, or ended with the call
     * before, by a fatal error or an exception of a signal's handler. The next call connects.
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
        // After the program's end no code is left that relies on what the server remembered.
        if ($wasPinned && $code !== Link::ABANDONED) {
            throw $code === Link::INHERITED ? self::ofParent($this->address) : $error;
        }
        return true;
    }

    /** The error of a forked child that goes on with what its parent watches or is subscribed to. */
    public static function ofParent(Address $address): ConnectionException
    {
        return new ConnectionException("the connection to $address is of the process that forked this one, and with it "
            . 'what it watches and is subscribed to; watch and subscribe after the fork');
    }

    private function connect(): Link
    {
        do {
            $link = $this->greeted();
        } while ($link === null);
        return $this->link = $link;
    }

    /** A connection that knows who we are; null where one of another request did not forget all of that one. */
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
