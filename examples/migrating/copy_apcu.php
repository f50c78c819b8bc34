<?php

declare(strict_types=1);

/**
 * Copies the APCu cache of this PHP process into a store, and back. APCu belongs to one PHP-FPM
 * master (or to one process of the command line), so the script must run there: include it in a
 * program, or serve it to local requests only, as docs/migrating/apcu.md shows.
 *
 *     copy_apcu.php?do=import
 *     copy_apcu.php?do=export&serializer=php
 *
 * The server parameter or environment variable UNDERCROFT_URL names the store. `serializer` is
 * `igbinary` (the default), `php`, `json`, `msgpack`, or `none` for strings and integers only. The
 * program must open the store with the same serializer. Entries keep their time to live.
 */
require_once __DIR__ . '/../../clients/php/autoload.php';

use Undercroft\Client;

const PROBE = 'undercroft:probe';

/**
 * Returns the current time of APCu's clock in seconds. The clock depends on APCu's version and
 * settings: Unix time, the start of the request, or the time since the machine started.
 */
function apcuTime(): int
{
    apcu_store(PROBE, 1);
    $time = apcu_key_info(PROBE)['creation_time'];
    apcu_delete(PROBE);
    return $time;
}

/** Copies APCu's entries into an empty store. */
function importApcu(Client $client): string
{
    if ($present = $client->dbSize()) {
        return "failed: the store already has $present keys; name an empty store\n";
    }
    $count = 0;
    $now = apcuTime();
    $format = APC_ITER_KEY | APC_ITER_VALUE | APC_ITER_TTL | APC_ITER_CTIME;
    foreach (new APCUIterator(null, $format) as $entry) {
        $left = $entry['creation_time'] + $entry['ttl'] - $now;
        if ($entry['ttl'] > 0 && $left <= 0) {
            continue; // Expired in the meantime.
        }
        $client->set($entry['key'], $entry['value'], $entry['ttl'] > 0 ? ['ex' => $left] : []);
        $count++;
    }
    return "imported $count entries\n";
}

/** Copies the strings of a store into APCu. */
function exportApcu(Client $client): string
{
    [$count, $other] = [0, 0];
    foreach (array_unique(iterator_to_array($client->scanIterator('*'), false)) as $key) {
        if ($client->type($key) !== 'string') {
            $other++;
            continue;
        }
        $left = $client->pTtl($key);
        if ($left === -2) {
            continue; // Expired in the meantime.
        }
        if (!apcu_store($key, $client->get($key), $left > 0 ? intdiv($left + 999, 1000) : 0)) {
            return "failed: APCu has no room for $key after $count entries; raise apc.shm_size\n";
        }
        $count++;
    }
    return "exported $count entries; keys of other types left out: $other\n";
}

$serializer = $_GET['serializer'] ?? 'igbinary';
$options = $serializer === 'none' ? [] : ['serializer' => $serializer];
$client = new Client($_SERVER['UNDERCROFT_URL'] ?? 'undercroft://default', $options);
echo match ($_GET['do'] ?? '') {
    'import' => importApcu($client),
    'export' => exportApcu($client),
    default => "failed: name what to do: do=import or do=export\n",
};
