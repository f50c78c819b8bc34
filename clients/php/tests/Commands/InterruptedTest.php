<?php

declare(strict_types=1);

namespace Undercroft\Tests\Commands;

use Undercroft\Client;
use Undercroft\Connection\Connection;
use Undercroft\Tests\EngineCase;

/** Tests a signal handler that uses the client in the middle of a call. */
final class InterruptedTest extends EngineCase
{
    /** Tests a handler that runs between WATCH and the transaction's callback. */
    public function testATransactionInASignalHandlerKeepsTheWatch(): void
    {
        $c = $this->client;
        $inner = null;
        $interrupted = new class ($c->connection()) implements Connection {
            public ?\Closure $handler = null;

            public function __construct(private readonly Connection $connection)
            {
            }

            public function execute(array $words, ?float $wait = null): mixed
            {
                $reply = $this->connection->execute($words, $wait);
                if ($words[0] === 'WATCH' && $this->handler !== null) {
                    [$handler, $this->handler] = [$this->handler, null];
                    $handler();
                }
                return $reply;
            }

            public function pipeline(array $commands): array
            {
                return $this->connection->pipeline($commands);
            }

            public function transaction(array $commands): ?array
            {
                return $this->connection->transaction($commands);
            }

            public function send(array ...$commands): void
            {
                $this->connection->send(...$commands);
            }

            public function receive(?float $timeout): mixed
            {
                return $this->connection->receive($timeout);
            }

            public function pin(bool $isPinned): void
            {
                $this->connection->pin($isPinned);
            }

            public function isPinned(): bool
            {
                return $this->connection->isPinned();
            }

            public function another(): Connection
            {
                return $this->connection->another();
            }

            public function hasMaps(): bool
            {
                return $this->connection->hasMaps();
            }

            public function close(): void
            {
                $this->connection->close();
            }
        };
        $client = new Client($interrupted);
        $other = self::connect();
        $interrupted->handler = static function () use ($client, $other, &$inner): void {
            $inner = $client->transaction(static fn ($queue) => $queue->incr('of the handler'));
            $other->set('k', 'of another');
        };
        $ran = $client->transaction(static fn ($queue) => $queue->set('k', 'lost'), watch: 'k');
        self::assertSame([[1], null, 'of another'], [$inner, $ran, $c->get('k')]);
    }
}
