<?php

declare(strict_types=1);

namespace Undercroft\Tests;

/**
 * Starts servers for the tests, each in a temporary folder. The servers stop when the test process
 * ends.
 */
final class Servers
{
    /** @var array<int, resource> processes, by process id */
    private static array $running = [];

    private static ?string $folder = null;

    /** Returns a temporary folder that is removed when the test process ends. */
    public static function folder(): string
    {
        if (self::$folder === null) {
            self::$folder = sys_get_temp_dir() . '/undercroft-php-' . bin2hex(random_bytes(6));
            mkdir(self::$folder, 0o700);
            $owner = getmypid();
            register_shutdown_function(static function () use ($owner): void {
                if (getmypid() === $owner) {
                    self::stopAll();
                }
            });
        }
        return self::$folder;
    }

    public static function port(): int
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($socket, false);
        fclose($socket);
        return (int) substr($name, strrpos($name, ':') + 1);
    }

    /** @return array{int, string} port and unix socket of a Redis server */
    public static function redis(string ...$more): array
    {
        $folder = self::folder() . '/' . bin2hex(random_bytes(4));
        mkdir($folder);
        $port = self::port();
        self::start(['redis-server', '--port', (string) $port, '--bind', '127.0.0.1', '--save', '', '--dir', $folder,
            '--unixsocket', "$folder/s", ...$more], $port, "$folder/s");
        return [$port, "$folder/s"];
    }

    /** @return array{int, string} port and unix socket of `undercroft serve` */
    public static function undercroft(string ...$more): array
    {
        $folder = self::folder() . '/' . bin2hex(random_bytes(4));
        mkdir($folder);
        $port = self::port();
        self::start([self::program(), 'serve', self::store(), '--port', (string) $port, '--bind', '127.0.0.1',
            '--unixsocket', "$folder/s", ...$more], $port, "$folder/s");
        return [$port, "$folder/s"];
    }

    public static function program(): string
    {
        return getenv('UNDERCROFT_PROGRAM') ?: dirname(__DIR__, 3) . '/target/release/undercroft';
    }

    /** Returns the path of a new store in /dev/shm. */
    public static function store(): string
    {
        $folder = '/dev/shm/' . basename(self::folder());
        is_dir($folder) || mkdir($folder, 0o700);
        return $folder . '/' . bin2hex(random_bytes(4));
    }

    /** @param list<string> $command */
    public static function start(array $command, int $port, ?string $unix = null): int
    {
        $log = self::folder() . "/$port.log";
        $process = proc_open($command, [['file', '/dev/null', 'r'], ['file', $log, 'a'], ['file', $log, 'a']], $pipes);
        $pid = proc_get_status($process)['pid'];
        self::$running[$pid] = $process;
        $end = microtime(true) + 30;
        foreach (["tcp://127.0.0.1:$port", ...($unix === null ? [] : ["unix://$unix"])] as $place) {
            while (!$socket = @stream_socket_client($place)) {
                if (microtime(true) > $end || !proc_get_status($process)['running']) {
                    throw new \RuntimeException("$command[0] did not start: " . file_get_contents($log));
                }
                usleep(10_000);
            }
            fclose($socket);
        }
        return $pid;
    }

    public static function stop(int $pid, int $signal = SIGKILL): void
    {
        proc_terminate(self::$running[$pid], $signal);
        proc_close(self::$running[$pid]);
        unset(self::$running[$pid]);
    }

    private static function stopAll(): void
    {
        foreach (array_keys(self::$running) as $pid) {
            self::stop($pid);
        }
        foreach ([self::$folder, '/dev/shm/' . basename(self::$folder)] as $folder) {
            if (is_dir($folder)) {
                exec('rm -rf ' . escapeshellarg($folder));
            }
        }
    }
}
