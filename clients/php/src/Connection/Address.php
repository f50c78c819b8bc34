<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;

/** The location of a client's data, parsed from a URL or an array of URL parts. */
final class Address
{
    /** Maps each URL scheme to its canonical name. */
    private const SCHEMES = [
        'tcp' => 'tcp',
        'redis' => 'tcp',
        'tls' => 'tls',
        'rediss' => 'tls',
        'unix' => 'unix',
        'undercroft' => 'undercroft',
        'redis+cluster' => 'cluster',
        'rediss+cluster' => 'cluster',
    ];

    /** Connection options that a URL may contain. All other options are passed to Client. */
    private const OPTIONS = ['timeout', 'connect_timeout', 'protocol', 'client_name'];

    /**
     * @param list<string> $nodes the servers of a cluster, each as host:port
     * @param array<string, string> $options connection options from the URL
     */
    public function __construct(
        public readonly string $scheme,
        public readonly string $host = '127.0.0.1',
        public readonly int $port = 6379,
        public readonly string $path = '',
        public readonly ?string $username = null,
        public readonly ?string $password = null,
        public readonly int $database = 0,
        public readonly array $nodes = [],
        public readonly bool $isEncrypted = false,
        public readonly array $options = [],
    ) {
    }

    /**
     * @param string|array<string, mixed> $place `redis://user:password@host:6379/2`, or a Predis-style array
     *
     * @throws ArgumentException
     */
    public static function of(string|array $place): self
    {
        if (is_array($place)) {
            return self::fromParts($place);
        }
        if (str_starts_with($place, 'undercroft://')) {
            return new self('undercroft', path: $place);
        }
        // Avoid regular expressions: PHP compiles each expression on first use, which takes longer
        // than a call to a server.
        [$scheme, $rest] = explode('://', $place, 2) + [1 => null];
        if ($rest === null || !isset(self::SCHEMES[$scheme])) {
            $known = implode('://, ', array_keys(self::SCHEMES));
            throw new ArgumentException("expected a URL that begins with $known://, got '" . self::shown($place) . "'");
        }
        [$rest, $query] = explode('?', $rest, 2) + [1 => ''];
        parse_str($query, $options);
        $known = ['username', 'password', 'db', 'database', ...self::OPTIONS];
        foreach ($options as $name => $value) {
            if (!in_array($name, $known, true) || !is_string($value)) {
                throw new ArgumentException('expected ' . implode(', ', $known) . " in the URL's query, got '$name'");
            }
        }
        $more = array_intersect_key($options, array_flip(self::OPTIONS));
        $username = $password = null;
        $at = strrpos($rest, '@');
        if ($at !== false) {
            [$username, $password] = explode(':', substr($rest, 0, $at), 2) + [1 => null];
            $rest = substr($rest, $at + 1);
            [$username, $password] = [rawurldecode($username), $password === null ? null : rawurldecode($password)];
            if ($password === null) {
                [$username, $password] = [null, $username];
            }
        }
        $username = self::login($options['username'] ?? $username, 'username');
        $password = self::login($options['password'] ?? $password, 'password');
        $database = $options['db'] ?? $options['database'] ?? '';
        if (self::SCHEMES[$scheme] === 'unix') {
            return new self('unix', path: $rest, username: $username, password: $password,
                database: self::number($database, 'database'), options: $more);
        }
        [$hosts, $path] = explode('/', $rest, 2) + [1 => ''];
        $database = $path !== '' ? $path : $database;
        if (self::SCHEMES[$scheme] === 'cluster') {
            $nodes = array_map(
                static fn (string $node): string => implode(':', self::hostAndPort($node)),
                explode(',', $hosts),
            );
            if (self::number($database, 'database') !== 0) {
                throw new ArgumentException("expected database 0, the only one of a cluster; got $database");
            }
            return new self('cluster', username: $username, password: $password, nodes: $nodes,
                isEncrypted: $scheme === 'rediss+cluster', options: $more);
        }
        [$host, $port] = self::hostAndPort($hosts);
        return new self(self::SCHEMES[$scheme], $host, $port, '', $username, $password,
            self::number($database, 'database'), options: $more);
    }

    /** @param array<string, mixed> $parts */
    private static function fromParts(array $parts): self
    {
        foreach (['scheme', 'host', 'path'] as $name) {
            if (!is_string($parts[$name] ?? '')) {
                throw new ArgumentException("expected a string as $name, got " . get_debug_type($parts[$name]));
            }
        }
        $scheme = self::SCHEMES[$parts['scheme'] ?? (isset($parts['path']) ? 'unix' : 'tcp')]
            ?? throw new ArgumentException("expected a known scheme, got '{$parts['scheme']}'");
        if ($scheme === 'cluster' || $scheme === 'undercroft') {
            throw new ArgumentException("expected a URL for $scheme, got an array");
        }
        return new self(
            $scheme,
            self::bracketed((string) ($parts['host'] ?? '127.0.0.1')),
            self::number($parts['port'] ?? 6379, 'port'),
            (string) ($parts['path'] ?? ''),
            self::login($parts['username'] ?? null, 'username'),
            self::login($parts['password'] ?? null, 'password'),
            self::number($parts['database'] ?? 0, 'database'),
        );
    }

    /**
     * Returns a user name or password as a string, or null if it is empty, so that no AUTH is sent.
     */
    private static function login(mixed $text, string $what): ?string
    {
        if ($text !== null && !is_string($text) && !is_int($text) && !$text instanceof \Stringable) {
            throw new ArgumentException("expected a string or null as $what, got " . get_debug_type($text));
        }
        return $text === null || (string) $text === '' ? null : (string) $text;
    }

    /** @return array{string, int} */
    public static function hostAndPort(string $text): array
    {
        [$host, $port] = explode(':', $text, 2) + [1 => '6379'];
        if (strpbrk($host, '[]') !== false || strlen($port) > 5 || !self::areDigits($port)) {
            if (!preg_match('~^(\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\])(?::(\d{1,5}))?$~D', $text, $found)) {
                throw new ArgumentException("expected host:port, got '$text'");
            }
            [$host, $port] = [$found[1], $found[2] ?? '6379'];
        }
        $port = (int) $port;
        if ($port < 1 || $port > 65535) {
            throw new ArgumentException("expected a port of 1 to 65535, got $port");
        }
        return [$host === '' ? '127.0.0.1' : $host, $port];
    }

    /** Returns a host in the form used before a port, with brackets around an IPv6 address. */
    public static function bracketed(string $host): string
    {
        return str_contains($host, ':') && $host[0] !== '[' ? "[$host]" : $host;
    }

    private static function areDigits(string $text): bool
    {
        return $text !== '' && strspn($text, '0123456789') === strlen($text);
    }

    private static function number(mixed $text, string $what): int
    {
        if ($text === '' || $text === null) {
            return 0;
        }
        if (!is_int($text) && !(is_string($text) && strlen($text) < 10 && self::areDigits($text)) || $text < 0) {
            throw new ArgumentException("expected a number for $what, got "
                . (is_scalar($text) ? var_export($text, true) : get_debug_type($text)));
        }
        return (int) $text;
    }

    /** Returns this address with a different host and port. */
    public function at(string $host, int $port): self
    {
        return new self($this->isEncrypted ? 'tls' : 'tcp', $host, $port, '', $this->username, $this->password);
    }

    /**
     * Returns the commands that set up a new connection: protocol, login, client name and database.
     *
     * @return list<list<string|int>>
     */
    public function greeting(Options $options): array
    {
        $commands = [];
        if ($options->protocol === 3) {
            $login = $this->password === null ? [] : ['AUTH', $this->username ?? 'default', $this->password];
            $commands[] = ['HELLO', 3, ...$login];
        } elseif ($this->password !== null) {
            $commands[] = $this->username === null
                ? ['AUTH', $this->password]
                : ['AUTH', $this->username, $this->password];
        }
        if ($this->database !== 0) {
            $commands[] = ['SELECT', $this->database];
        }
        if ($options->clientName !== '') {
            $commands[] = ['CLIENT', 'SETNAME', $options->clientName];
        }
        return $commands;
    }

    /** Returns the address argument for stream_socket_client(). */
    public function target(): string
    {
        return $this->scheme === 'unix' ? "unix://$this->path" : "tcp://$this->host:$this->port";
    }

    /** Returns the address for error messages, without the password. */
    public function __toString(): string
    {
        return match ($this->scheme) {
            'unix' => "unix://$this->path",
            'undercroft' => $this->path,
            'cluster' => 'redis+cluster://' . implode(',', $this->nodes),
            default => "$this->scheme://$this->host:$this->port",
        };
    }

    /** Returns a URL without its credentials. */
    private static function shown(string $url): string
    {
        return preg_replace('~//[^@/]*@~', '//***@', $url) ?? '';
    }
}
