<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;

/** How connections are made. */
final class Options
{
    /** What an array of options may hold. */
    private const NAMES = ['timeout', 'connect_timeout', 'protocol', 'persistent', 'client_name', 'ssl', 'native',
        'retry', 'spin', 'store'];

    /**
     * @param float $timeout seconds that an answer may take; 0 is without end
     * @param float $connectTimeout seconds that a connection may take to be made
     * @param int $protocol 2 or 3
     * @param bool|string $persistent whether the process keeps the connection for its next request; a string tells
     *     several of them apart
     * @param string $clientName what CLIENT LIST calls this connection
     * @param array<string, mixed> $ssl PHP's context options of TLS: cafile, local_cert, verify_peer ...
     * @param bool $native whether the extension, where it is loaded, does the work
     * @param array<string, mixed> $store of a store in shared memory: db, maxmemory, capacity, policy, strict
     * @param int $spin microseconds for which a reply is looked for before the process sleeps; 0 sleeps at once
     * @param bool $retry whether commands that change nothing are sent once more where the connection was lost
     */
    public function __construct(
        public readonly float $timeout = 5.0,
        public readonly float $connectTimeout = 5.0,
        public readonly int $protocol = 2,
        public readonly bool|string $persistent = false,
        public readonly string $clientName = '',
        public readonly array $ssl = [],
        public readonly bool $native = true,
        public readonly bool $retry = true,
        public readonly array $store = [],
        public readonly int $spin = 0,
    ) {
        if ($protocol !== 2 && $protocol !== 3) {
            throw new ArgumentException("expected protocol 2 or 3, got $protocol");
        }
        if (!($timeout >= 0) || !($connectTimeout > 0)) {
            throw new ArgumentException("expected time limits of seconds, got $timeout and $connectTimeout");
        }
        if ($spin < 0 || $spin > 1_000) {
            throw new ArgumentException("expected 0 to 1,000 microseconds to spin, got $spin");
        }
    }

    /** @param array<string, mixed> $options by their names; others are left alone */
    public static function of(array $options): self
    {
        if ($options === []) {
            return new self();
        }
        $known = array_intersect_key($options, array_flip(self::NAMES));
        return new self(
            timeout: (float) self::number($known['timeout'] ?? 5.0, 'timeout'),
            connectTimeout: (float) self::number($known['connect_timeout'] ?? 5.0, 'connect_timeout'),
            protocol: (int) self::number($known['protocol'] ?? 2, 'protocol'),
            persistent: $known['persistent'] ?? false,
            clientName: (string) ($known['client_name'] ?? ''),
            ssl: $known['ssl'] ?? [],
            native: (bool) ($known['native'] ?? true),
            retry: (bool) ($known['retry'] ?? true),
            store: $known['store'] ?? [],
            spin: (int) self::number($known['spin'] ?? 0, 'spin'),
        );
    }

    /** A number, also in digits. Words are refused, as PHP takes them for 0, which is a timeout without end. */
    private static function number(mixed $value, string $name): int|float
    {
        if (!is_int($value) && !is_float($value) && !(is_string($value) && is_numeric($value))) {
            throw new ArgumentException("expected a number as option $name, got "
                . (is_scalar($value) ? var_export($value, true) : get_debug_type($value)));
        }
        return $value + 0;
    }

    /** @return list<string> */
    public static function names(): array
    {
        return self::NAMES;
    }
}
