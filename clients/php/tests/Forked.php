<?php

declare(strict_types=1);

namespace Undercroft\Tests;

/** Runs forked.php, a program that forks while its client is connected. */
final class Forked
{
    /**
     * @param array<string, mixed> $options the client's options
     *
     * @return array<string, mixed> the program's JSON output
     */
    public static function run(string $what, string $url, array $options = []): array
    {
        $extension = getenv('UNDERCROFT_EXTENSION');
        // Limit the running time, because processes that receive each other's replies may wait
        // forever.
        $command = ['timeout', '900', PHP_BINARY, ...($extension ? ['-d', "extension=$extension"] : []),
            __DIR__ . '/forked.php', $what, $url, json_encode($options)];
        $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes);
        $text = stream_get_contents($pipes[1]);
        $status = proc_close($process);
        $told = json_decode($text, true);
        if ($status !== 0 || !is_array($told)) {
            throw new \RuntimeException("forked.php $what ended with $status: $text");
        }
        return $told;
    }
}
