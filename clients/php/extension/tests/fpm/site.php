<?php

declare(strict_types=1);

// Implements the actions of the requests that tests/fpm/storm.php sends to FPM workers. A request's
// query names its action.

use Undercroft\Native\Store;

$began = hrtime(true);
$url = $_SERVER['UNDERCROFT_STORE'];
$store = new Store($url, ['timeout' => 60.0]);
$found = $store->get('greeting');
$spent = hrtime(true) - $began;

/** Returns a value that contains its seed, so that a torn value can be detected. */
function value(int $seed): string
{
    $length = 8 + $seed % 4000;
    return sprintf('%08d', $seed) . str_repeat(chr(97 + $seed % 26), $length);
}

/**
 * Prints `torn` if a value does not match its seed. storm.php searches the responses for this word.
 */
function check(?string $value): void
{
    if ($value !== null && $value !== value((int) substr($value, 0, 8))) {
        echo 'torn';
        exit;
    }
}

function write_much(Store $store, int $times): void
{
    for ($i = 0; $i < $times; $i++) {
        $seed = random_int(0, 99_999_999);
        $store->set('value' . $seed % 10, value($seed));
        $store->transaction([['INCR', 'left'], ['INCR', 'right']]);
        $store->execute(['RPUSH', 'queue', $seed]);
        $store->execute(['LTRIM', 'queue', -1000, -1]);
    }
}

switch ($_GET['do'] ?? '') {
    case 'first':
        // Reports the duration of the request's first call and the worker's process id.
        echo json_encode(['pid' => getmypid(), 'ns' => $spent, 'greeting' => $found]);
        break;
    case 'read':
        for ($i = 0; $i < 200; $i++) {
            check($store->get('value' . $i % 10));
        }
        [$left, $right] = $store->mget(['left', 'right']);
        echo $left === $right ? 'read' : 'torn';
        break;
    case 'write':
        write_much($store, 20);
        echo 'written';
        break;
    case 'for ever':
        // Runs until request_terminate_timeout or a kill ends the worker.
        write_much($store, PHP_INT_MAX);
        break;
    case 'wait':
        $store->execute(['BLPOP', 'nothing', 0]);
        break;
    case 'memory':
        ini_set('memory_limit', '4M');
        for ($all = [];;) {
            $all[] = $store->get('value' . count($all) % 10);
            $store->set('memory', (string) count($all));
        }
    case 'fatal':
        $store->execute(['MULTI']);
        no_such_function();
    case 'exit':
        $store->execute(['WATCH', 'left']);
        exit('written');
    case 'exception':
        $store->subscribe(['channel']);
        throw new Exception('nobody catches it');
}
