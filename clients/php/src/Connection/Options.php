<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;

/** Options for opening connections. */
final class Options
{
    /** The names of all connection options. */
    private const NAMES = ['timeout', 'connect_timeout', 'protocol', 'persistent', 'client_name', 'ssl', 'native',
        'retry', 'spin', 'store'];

    /**
     * @param float $timeout seconds to wait for a reply; 0 means no limit
     * @param float $connectTimeout seconds to wait for a connection to open
     * @param int $protocol the RESP version, 2 or 3
     * @param bool|string $persistent whether the process keeps the connection for its next request;
     *     a string distinguishes several connections to one address
     * @param string $clientName the connection's name in CLIENT LIST
     * @param array<string, mixed> $ssl PHP's TLS context options: cafile, local_cert, verify_peer ...
     * @param bool $native whether to use the extension if it is loaded
     * @param array<string, mixed> $store for a store in shared memory: db, maxmemory, capacity, policy,
     *     durability, journal, strict
     * @param int $spin microseconds to poll for a reply before the process sleeps; 0 sleeps
     *     immediately
     * @param bool $retry whether to resend read-only commands once after a lost connection
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
            throw new ArgumentException("expected time limits in seconds, got $timeout and $connectTimeout");
        }
        if ($spin < 0 || $spin > 1_000) {
            throw new ArgumentException("expected 0 to 1,000 microseconds as spin, got $spin");
        }
    }

    /**
     * @param array<string, mixed> $options the values of options, by name; unknown names are ignored
     */
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

    /**
     * Returns a number or numeric string as a number. Other strings are refused, because PHP
     * converts them to 0, which means no timeout.
     */
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
