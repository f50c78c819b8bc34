<?php

declare(strict_types=1);

/**
 * Subscribes while more than 1,024 files are open and prints the received messages: `php
 * descriptors.php URL NATIVE CAFILE`.
 */

require __DIR__ . '/../autoload.php';

[, $url, $native, $cafile] = $argv;
$options = ['native' => $native === '1', 'timeout' => 60.0, 'ssl' => ['cafile' => $cafile]];
$client = new Undercroft\Client($url, $options);
$client->ping();
for ($number = 0; $number < 1100; $number++) {
    $files[] = fopen('/dev/null', 'r') ?: exit("no more than $number files\n");
}
try {
    $loop = $client->pubSubLoop(['subscribe' => 'news']);
    echo $loop->next()->kind, "\n";
    echo $loop->next(0.05)?->kind ?? 'nothing', "\n";
    $client->publish('news', 'text');
    echo $loop->next(5.0)->payload, "\n";
} catch (Undercroft\ConnectionException $error) {
    echo $error->getMessage(), "\n";
}
