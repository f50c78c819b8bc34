<?php

declare(strict_types=1);

/**
 * The script of PHP-FPM's workers for the table `php`. `do=first` prints the nanoseconds of a
 * request's first call, through the extension's store or through the client. `do=read` reads 300
 * keys.
 */

use Undercroft\Client;
use Undercroft\Native\Store;

$url = $_SERVER['UNDERCROFT_STORE'];
parse_str($_SERVER['QUERY_STRING'], $asked);
if ($asked['do'] === 'read') {
    $store = new Store($url);
    for ($at = 0; $at < 300; $at++) {
        if ($store->get("key:$at") === null) {
            http_response_code(500);
            exit('a key is missing');
        }
    }
    echo 'read';
    exit;
}
$began = hrtime(true);
if ($asked['by'] === 'client') {
    require __DIR__ . '/../../clients/php/autoload.php';
    $found = (new Client($url))->get('key:0');
} else {
    $found = (new Store($url))->get('key:0');
}
$spent = hrtime(true) - $began;
echo $found === 'value' ? $spent : 'wrong';
