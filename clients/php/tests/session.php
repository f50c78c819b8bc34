<?php

declare(strict_types=1);

/** A request with a session: `php session.php URL ID TIMES`, which counts one up so many times, a session each time. */
require __DIR__ . '/../autoload.php';

[, $url, $id, $times] = $argv;
$client = new Undercroft\Client($url, ['native' => getenv('UNDERCROFT_ENGINE') === 'native']);
ini_set('session.use_cookies', '0');
ini_set('session.cache_limiter', '');
session_set_save_handler(new Undercroft\Session\Handler($client), true);
for ($turn = 0; $turn < (int) $times; $turn++) {
    session_id($id);
    session_start();
    $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
    session_write_close();
}
