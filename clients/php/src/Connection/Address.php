<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;

/** Where a client's data is, taken from a URL or from an array of its parts. */
final class Address
{
    /** What schemes are called, and what becomes of them. */
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

    /**
     * @param list<string> $nodes of a cluster: host:port of each
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
    ) {
    }

    /**
     * @param string|array<string, mixed> $place `redis://user:password@host:6379/2`, or Predis' array of such parts
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
        if (!preg_match('~^([a-z+]+)://(.*)$~Ds', $place, $found) || !isset(self::SCHEMES[$found[1]])) {
            $known = implode('://, ', array_keys(self::SCHEMES));
            throw new ArgumentException("expected a URL that begins with $known://; got '" . self::shown($place) . "'");
        }
        [, $scheme, $rest] = $found;
        [$rest, $query] = explode('?', $rest, 2) + [1 => ''];
        parse_str($query, $options);
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
        $username = $options['username'] ?? ($username === '' ? null : $username);
        $password = $options['password'] ?? $password;
        $database = $options['db'] ?? $options['database'] ?? '';
        if (self::SCHEMES[$scheme] === 'unix') {
            return new self('unix', path: $rest, username: $username, password: $password,
                database: self::number($database, 'database'));
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
                isEncrypted: $scheme === 'rediss+cluster');
        }
        [$host, $port] = self::hostAndPort($hosts);
        return new self(self::SCHEMES[$scheme], $host, $port, '', $username, $password,
            self::number($database, 'database'));
    }

    /** @param array<string, mixed> $parts */
    private static function fromParts(array $parts): self
    {
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
            $parts['username'] ?? null,
            $parts['password'] ?? null,
            self::number($parts['database'] ?? 0, 'database'),
        );
    }

    /** @return array{string, int} */
    public static function hostAndPort(string $text): array
    {
        if (!preg_match('~^(\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]|[^:\[\]]*)(?::(\d{1,5}))?$~D', $text, $found)) {
            throw new ArgumentException("expected host:port, got '$text'");
        }
        $port = (int) ($found[2] ?? 6379);
        if ($port < 1 || $port > 65535) {
            throw new ArgumentException("expected a port of 1 to 65535, got $port");
        }
        return [$found[1] === '' ? '127.0.0.1' : $found[1], $port];
    }

    /** A host as it stands before a port: an address of IPv6 in brackets. */
    public static function bracketed(string $host): string
    {
        return str_contains($host, ':') && $host[0] !== '[' ? "[$host]" : $host;
    }

    private static function number(mixed $text, string $what): int
    {
        if ($text === '' || $text === null) {
            return 0;
        }
        if (!is_int($text) && !preg_match('~^\d{1,9}$~D', (string) $text)) {
            throw new ArgumentException("expected a number for $what, got '$text'");
        }
        return (int) $text;
    }

    /** The same place on another host. */
    public function at(string $host, int $port): self
    {
        return new self($this->isEncrypted ? 'tls' : 'tcp', $host, $port, '', $this->username, $this->password);
    }

    /**
     * The commands that a new connection begins with: who we are, and which database we want.
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

    /** What stream_socket_client() takes. */
    public function target(): string
    {
        return $this->scheme === 'unix' ? "unix://$this->path" : "tcp://$this->host:$this->port";
    }

    /** How errors call it: without its password. */
    public function __toString(): string
    {
        return match ($this->scheme) {
            'unix' => "unix://$this->path",
            'undercroft' => $this->path,
            'cluster' => 'redis+cluster://' . implode(',', $this->nodes),
            default => "$this->scheme://$this->host:$this->port",
        };
    }

    /** A URL without its password. */
    private static function shown(string $url): string
    {
        return preg_replace('~//[^@/]*@~', '//***@', $url) ?? '';
    }
}
