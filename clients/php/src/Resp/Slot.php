<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/**
 * Computes the cluster hash slot of a key: the CRC16 (XMODEM) of the key, or of the part of the key
 * in braces, modulo 16384.
 */
final class Slot
{
    /** @var list<int> */
    private static array $table = [];

    public static function of(string $key): int
    {
        $open = strpos($key, '{');
        if ($open !== false) {
            $close = strpos($key, '}', $open + 1);
            if ($close !== false && $close > $open + 1) {
                $key = substr($key, $open + 1, $close - $open - 1);
            }
        }
        $table = self::$table === [] ? self::table() : self::$table;
        $crc = 0;
        for ($at = 0, $length = strlen($key); $at < $length; $at++) {
            $crc = ($crc << 8 & 0xffff) ^ $table[($crc >> 8) ^ ord($key[$at])];
        }
        return $crc & 0x3fff;
    }

    /** @return list<int> */
    private static function table(): array
    {
        for ($byte = 0; $byte < 256; $byte++) {
            $crc = $byte << 8;
            for ($bit = 0; $bit < 8; $bit++) {
                $crc = $crc & 0x8000 ? ($crc << 1 & 0xffff) ^ 0x1021 : $crc << 1;
            }
            self::$table[$byte] = $crc;
        }
        return self::$table;
    }
}
