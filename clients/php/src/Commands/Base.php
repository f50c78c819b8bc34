<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\Command;
use Undercroft\Feed;
use Undercroft\Serializer\Serializer;

/**
 * The parts of a client and of a pipeline that need no family of commands.
 *
 * The class that uses this says in call() what becomes of a command: it is run, or queued.
 */
trait Base
{
    private string $prefix = '';

    private ?Serializer $serializer = null;

    /** @var array<string, Command> by their names in small letters */
    private array $custom = [];

    /**
     * @param list<string|int|float> $words
     * @param string $shape what becomes of the reply; '' leaves it as it is
     * @param string|int|float|null $wait how many seconds the command itself may wait; 0 is without end
     */
    abstract protected function call(array $words, string $shape = '', string|int|float|null $wait = null): mixed;

    /** Runs or queues a command whose reply a function makes a result of. */
    abstract protected function converted(array $words, ?callable $convert): mixed;

    /** The family of a method that is not loaded yet; null where there is none. */
    abstract private function family(string $method): ?Family;

    private function setWith(string $key, mixed $value, array $options): mixed
    {
        $words = ['SET', $this->prefix . $key, $this->serializer === null ? $value : $this->serializer->encode($value)];
        if (count($options) === 1 && is_int($options[0] ?? null)) {
            $options = [['ex' => $options[0]]];
        }
        $more = Words::options($options);
        $returnsOld = false;
        foreach ($more as $word) {
            $returnsOld = $returnsOld || is_string($word) && strtoupper($word) === 'GET';
        }
        return $this->call([...$words, ...$more], $returnsOld ? 'value' : 'bool');
    }

    /** A list of values of one size with attributes: see Feed. */
    public function feed(string $key): Feed
    {
        return new Feed(fn (array $words, ?callable $convert): mixed => $this->converted($words, $convert),
            $this->prefix . $key);
    }

    /** Methods of families that are not loaded, commands that were registered, and those that are not in our table. */
    public function __call(string $name, array $arguments): mixed
    {
        $family = $this->family($name);
        if ($family !== null) {
            return $this->call(...$family->words($name, $arguments));
        }
        $custom = $this->custom[strtolower($name)] ?? null;
        if ($custom !== null) {
            return $this->custom($custom, $arguments);
        }
        $words = [strtoupper($name), ...Words::flat($arguments)];
        Words::check($words[0]);
        return $this->call($this->prefix === '' ? $words : KeyWords::prefixed($words, $this->prefix));
    }

    protected function custom(Command $command, array $arguments): mixed
    {
        $words = $command->words(Words::flat($arguments));
        return $this->converted(
            $this->prefix === '' ? $words : KeyWords::prefixed($words, $this->prefix),
            $command->result(...),
        );
    }
}
