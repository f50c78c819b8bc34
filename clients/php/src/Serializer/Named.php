<?php

declare(strict_types=1);

namespace Undercroft\Serializer;

use Undercroft\ArgumentException;
use Undercroft\SerializerException;

/**
 * The built-in serializers, which are selected by name: `json`, `igbinary`, `msgpack`, `php`.
 *
 * Integers are stored as decimal digits, so that INCR and similar commands work on them, and are
 * decoded as integers. Only `php` and `igbinary` create objects from stored bytes, so use these two
 * serializers only if every writer to the store is trusted.
 */
final class Named implements Serializer
{
    public function __construct(private readonly string $name)
    {
        $function = match ($name) {
            'json' => 'json_encode',
            'php' => 'serialize',
            'igbinary' => 'igbinary_serialize',
            'msgpack' => 'msgpack_pack',
            default => throw new ArgumentException(
                "expected json, igbinary, msgpack or php as serializer, got '$name'",
            ),
        };
        if (!function_exists($function)) {
            throw new ArgumentException("the serializer $name needs PHP's extension $name, which is not loaded");
        }
    }

    public function encode(mixed $value): string|int
    {
        if (is_int($value)) {
            return $value;
        }
        try {
            return match ($this->name) {
                'json' => json_encode($value, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION
                    | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE),
                'php' => serialize($value),
                'igbinary' => igbinary_serialize($value),
                'msgpack' => msgpack_pack($value),
            };
        } catch (\Throwable $error) {
            throw new SerializerException("$this->name cannot serialize this value: {$error->getMessage()}", 0, $error);
        }
    }

    public function decode(string $text): mixed
    {
        $number = (int) $text;
        if ((string) $number === $text) {
            return $number;
        }
        set_error_handler(static fn (int $level, string $message): bool => throw new SerializerException($message));
        try {
            return match ($this->name) {
                'json' => json_decode($text, true, 512, JSON_THROW_ON_ERROR),
                'php' => unserialize($text),
                'igbinary' => igbinary_unserialize($text),
                'msgpack' => msgpack_unpack($text),
            };
        } catch (\Throwable $error) {
            throw new SerializerException("$this->name cannot read the stored value: {$error->getMessage()}", 0, $error);
        } finally {
            restore_error_handler();
        }
    }
}
