<?php

declare(strict_types=1);

namespace Undercroft\Channels;

use Undercroft\ArgumentException;
use Undercroft\Objects;
use Undercroft\StoredObject;

/**
 * @internal The form of messages in a channel's list. The first byte of an item is `b` for bytes, `s`
 * for text and `r` for the name of an object. Every other item is a whole object.
 */
final class Item
{
    /** The number of bytes from which bytes and texts are sent as objects. */
    private const INLINE_MAX = 32 << 10;

    /** The start of a text in msgpack with a length of 32 bits, in a tree without buffers. */
    private const TEXT = "\0\0\0\0\xdb";

    /** Returns the item of bytes (`b`) or of a text (`s`). */
    public static function of(string $kind, string $bytes): string
    {
        if (strlen($bytes) < self::INLINE_MAX) {
            return $kind . $bytes;
        }
        return $kind === 'b' ? Objects::encoded('b', '', $bytes)
            : Objects::encoded('m', self::TEXT . pack('N', strlen($bytes)) . $bytes, '');
    }

    /** @param list<int> $shape */
    public static function ofArray(string $dtype, array $shape, string $items): string
    {
        return Objects::encoded('a', Objects::described($dtype, $shape, $items), $items);
    }

    public static function isName(string $item): bool
    {
        return str_starts_with($item, 'r');
    }

    public static function isPickle(string $item): bool
    {
        return str_starts_with($item, Objects::MAGIC . 'p');
    }

    /** Returns the message of an item that is not the name of an object. */
    public static function read(string $item): Received
    {
        $kind = $item[0] ?? '';
        if ($kind === 'b' || $kind === 's' && preg_match('//u', $item) === 1) {
            return new Received($kind, substr($item, 1));
        }
        try {
            $object = StoredObject::of($item);
        } catch (ArgumentException) {
            // An item that is neither was not written by a client of a channel.
            return new Received('b', $item);
        }
        if ($object->kind === 'a' && $object->dtype() !== null) {
            return new Received('a', $object->bytes, $object->dtype(), $object->shape());
        }
        $text = $object->kind === 'm' ? self::text($object->description) : null;
        return $text === null ? new Received($object->kind, $object->bytes) : new Received('s', $text);
    }

    /** Returns the text of a tree that is a single text without buffers, or null for any other tree. */
    private static function text(string $description): ?string
    {
        $head = unpack('Vbuffers/Cmark', str_pad(substr($description, 0, 5), 5, "\0"));
        $rest = substr($description, 5);
        if ($head['buffers'] !== 0) {
            return null;
        }
        [$width, $format] = match ($head['mark']) {
            0xd9 => [1, 'C'],
            0xda => [2, 'n'],
            0xdb => [4, 'N'],
            default => [0, null],
        };
        if (strlen($rest) < $width || $format === null && ($head['mark'] & 0xe0) !== 0xa0) {
            return null;
        }
        $length = $format === null ? $head['mark'] & 0x1f : unpack($format, $rest)[1];
        $text = substr($rest, $width);
        return strlen($text) === $length && preg_match('//u', $text) === 1 ? $text : null;
    }
}
