<?php

declare(strict_types=1);

/**
 * One side of a comparison of PHP clients: `php loop.php CLIENT PLACE`. Each line of input is an
 * operation and a count, and the answer is the nanoseconds that all calls took together. Values are
 * checked once before the timing, so that no wrong value counts as fast.
 */
require __DIR__ . '/../../clients/php/autoload.php';

[, $name, $place] = $argv;
$isUnix = str_starts_with($place, 'unix://');
if ($name === 'predis') {
    require '/usr/share/php/Predis/Autoloader.php';
    Predis\Autoloader::register();
    $client = new Predis\Client($isUnix ? ['scheme' => 'unix', 'path' => substr($place, 7)] : $place);
} elseif ($name === 'phpredis') {
    $client = new Redis();
    [$host, $port] = explode(':', substr($place, 6)) + [1 => ''];
    $isUnix ? $client->connect(substr($place, 7)) : $client->connect($host, (int) $port);
} elseif ($name === 'store') {
    $client = new Undercroft\Native\Store($place);
} elseif ($name !== 'apcu') {
    $options = ['native' => $name === 'extension', 'spin' => $name === 'spinning' ? 50 : 0];
    $client = new Undercroft\Client($place, $options);
}

$key = 'key:00000001';
$value = 'value:000001';
$hundred = array_map(static fn (int $at): string => sprintf('key:%08d', $at), range(0, 99));
$session = str_repeat('0123456789', 1024);

if ($name === 'apcu') {
    apcu_store($key, $value);
    $operations = [
        'get' => static function (int $count) use ($key): void {
            for (; $count > 0; $count--) {
                apcu_fetch($key);
            }
        },
        'set' => static function (int $count) use ($key, $value): void {
            for (; $count > 0; $count--) {
                apcu_store($key, $value);
            }
        },
    ];
    $got = apcu_fetch($key);
} else {
    $client->set($key, $value);
    $client->set('session', $session);
    $pipeline = static function (callable $queue) use ($client, $name): array {
        if ($name === 'phpredis') {
            $pipe = $client->multi(Redis::PIPELINE);
            $queue($pipe);
            return $pipe->exec();
        }
        return $client->pipeline($queue);
    };
    $operations = [
        'get' => static function (int $count) use ($client, $key): void {
            for (; $count > 0; $count--) {
                $client->get($key);
            }
        },
        'set' => static function (int $count) use ($client, $key, $value): void {
            for (; $count > 0; $count--) {
                $client->set($key, $value);
            }
        },
        'keys' => static function (int $count) use ($client): void {
            for (; $count > 0; $count--) {
                if (count($client->keys('key:*')) !== 30_000) {
                    throw new RuntimeException('expected 30,000 keys');
                }
            }
        },
        'fill' => static function (int $count) use ($client): void {
            for (; $count > 0; $count--) {
                $client->set('key:' . ($count - 1), 'value');
            }
        },
        // Overwrites ten keys each millisecond, for `count` milliseconds.
        'busy' => static function (int $count) use ($client): void {
            for ($end = hrtime(true) + $count * 1_000_000, $at = 0; hrtime(true) < $end; $at++) {
                $client->set('key:' . $at % 300, 'value');
                $at % 10 === 9 && usleep(1_000);
            }
        },
        'lrange' => static function (int $count) use ($client): void {
            for (; $count > 0; $count--) {
                if (count($client->lrange('list', 0, -1)) !== 10_000) {
                    throw new RuntimeException('expected 10,000 items');
                }
            }
        },
        'pipeline-get' => static function (int $count) use ($pipeline, $hundred): void {
            for (; $count > 0; $count--) {
                $pipeline(static function ($pipe) use ($hundred): void {
                    foreach ($hundred as $each) {
                        $pipe->get($each);
                    }
                });
            }
        },
        'pipeline-set' => static function (int $count) use ($pipeline, $hundred, $value): void {
            for (; $count > 0; $count--) {
                $pipeline(static function ($pipe) use ($hundred, $value): void {
                    foreach ($hundred as $each) {
                        $pipe->set($each, $value);
                    }
                });
            }
        },
        'mget' => static function (int $count) use ($client, $hundred): void {
            for (; $count > 0; $count--) {
                $client->mget($hundred);
            }
        },
        'session-get' => static function (int $count) use ($client): void {
            for (; $count > 0; $count--) {
                $client->get('session');
            }
        },
        'session-set' => static function (int $count) use ($client, $session): void {
            for (; $count > 0; $count--) {
                $client->set('session', $session);
            }
        },
    ];
    $got = $client->get($key);
}
if ($got !== $value) {
    throw new RuntimeException("expected '$value', got " . json_encode($got));
}
echo "ready\n";
while (($line = fgets(STDIN)) !== false) {
    [$operation, $count] = explode(' ', trim($line));
    try {
        $started = hrtime(true);
        $operations[$operation]((int) $count);
        echo hrtime(true) - $started, "\n";
    } catch (Throwable $error) {
        echo 'error ', strtr($error->getMessage(), "\n", ' '), "\n";
    }
}
