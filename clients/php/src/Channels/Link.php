<?php

declare(strict_types=1);

namespace Undercroft\Channels;

/**
 * A channel in a store that this process maps, or on a server. A timeout of null waits without
 * limit, and 0 does not wait.
 */
interface Link
{
    /** Sends bytes (`b`) or text (`s`). Returns false if the channel is still full after the timeout. */
    public function send(string $kind, string $bytes, ?float $timeout): bool;

    /** @param list<int> $shape */
    public function sendArray(string $dtype, array $shape, string $items, ?float $timeout): bool;

    public function receive(?float $timeout): ?Received;

    public function hold(?float $timeout): ?Delivery;

    public function length(): int;

    public function isClosed(): bool;

    public function close(): void;

    public function delete(): void;
}
