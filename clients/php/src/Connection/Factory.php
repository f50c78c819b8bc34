<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;

/** Picks what runs a client's commands. */
final class Factory
{
    public static function connection(Address $address, Options $options): Connection
    {
        if ($address->scheme === 'cluster') {
            return new ClusterConnection($address, $options);
        }
        if ($address->scheme === 'undercroft') {
            if (!class_exists(\Undercroft\Native\Store::class, false)) {
                throw new ArgumentException("$address is a store in shared memory, which needs the PHP extension "
                    . "'undercroft'; load it, or have `undercroft serve` serve the store and use tcp:// or unix://");
            }
            return new EmbeddedConnection($address, $options);
        }
        // The extension has no TLS: there it reads replies only.
        $isNative = $options->native && $address->scheme !== 'tls'
            && class_exists(\Undercroft\Native\Connection::class, false);
        return $isNative ? new NativeConnection($address, $options) : new StreamConnection($address, $options);
    }
}
