<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

/** Runs a request in a separate process with session.php. */
trait SessionProcess
{
    /** @var resource|null */
    private $process = null;

    /** @var array<int, resource> */
    private array $pipes = [];

    protected function tearDown(): void
    {
        $this->process === null || $this->kill();
    }

    /**
     * @param list<string> $in a wrapper command that runs PHP, with its arguments
     * @param array<string, string> $environment additional environment variables
     */
    private function start(string $what, ?string $url = null, array $in = [], array $environment = []): void
    {
        $extension = getenv('UNDERCROFT_EXTENSION');
        $command = [...$in, PHP_BINARY, '-d', 'display_errors=0', '-d', 'log_errors=0',
            ...($extension ? ['-d', "extension=$extension"] : []), dirname(__DIR__) . '/session.php',
            $url ?? self::url(), 's', $what];
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $this->pipes, null,
            $environment + getenv());
    }

    /** Starts a request that holds the session's lock. */
    private function hold(?string $url = null, array $in = [], array $environment = []): void
    {
        $this->start('hold', $url, $in, $environment);
        self::assertSame("held\n", fgets($this->pipes[1]));
    }

    private function kill(): void
    {
        proc_terminate($this->process, SIGKILL);
        // Wait for the killed process before closing its input. Otherwise the process could reach
        // the end of its input and exit normally.
        stream_get_contents($this->pipes[1]);
        $this->end();
    }

    private function end(): int
    {
        array_map(fclose(...), $this->pipes);
        $status = proc_close($this->process);
        $this->process = null;
        return $status;
    }
}
