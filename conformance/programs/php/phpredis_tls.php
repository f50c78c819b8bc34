<?php

// phpredis over TLS: both sides present certificates; values, pipelines, a user.

declare(strict_types=1);

$files = getenv('PROGRAM_CERTIFICATES');
$authority = ['cafile' => "$files/ca.pem"];
$own = ['local_cert' => "$files/client.pem", 'local_pk' => "$files/client.key"];

function check(bool $holds, string $what): void
{
    if (!$holds) {
        throw new RuntimeException($what);
    }
}

/** Returns a client with these TLS options. */
function connect(array $options): Redis
{
    $parts = parse_url($GLOBALS['argv'][1]);
    $client = new Redis();
    $client->connect("tls://{$parts['host']}", $parts['port'], 20, null, 0, 20, ['stream' => $options]);
    return $client;
}

/** Returns the warnings and the message of a connection that must fail. */
function refusal(array $options): string
{
    $warnings = '';
    set_error_handler(static function (int $level, string $text) use (&$warnings): bool {
        $warnings .= "$text\n";
        return true;
    });
    try {
        connect($options)->ping();
    } catch (RedisException $error) {
        return $warnings . $error->getMessage();
    } finally {
        restore_error_handler();
    }
    throw new RuntimeException('the connection was accepted');
}

$client = connect($authority + $own);
foreach ([0, 1, 16_383, 16_384, 16_385, 1_000_000] as $size) {
    $value = $size === 0 ? '' : random_bytes($size);
    $client->set('value', $value);
    check($client->get('value') === $value, "a value of $size bytes");
}
$pipeline = $client->multi(Redis::PIPELINE);
for ($number = 0; $number < 2_000; $number++) {
    $pipeline->set("key:$number", $number)->get("key:$number");
}
foreach (array_chunk($pipeline->exec(), 2) as $number => [, $value]) {
    check($value === (string) $number, "reply $number of a pipeline");
}

$client->rawCommand('ACL', 'SETUSER', 'ann', 'on', '>secret', '~a:*', '+get');
$ann = connect($authority + $own);
check($ann->auth(['ann', 'secret']), 'ann may log in');
check($ann->get('a:1') === false && $ann->getLastError() === null, 'ann may read a:1');
try {
    check($ann->get('b:1') === null, 'ann may not read b:1');
} catch (RedisException $error) {
    check(str_starts_with($error->getMessage(), 'NOPERM'), $error->getMessage());
}
$client->rawCommand('ACL', 'DELUSER', 'ann');

check(str_contains(refusal($own), 'certificate verify failed'), 'an unknown authority');
refusal($authority);
