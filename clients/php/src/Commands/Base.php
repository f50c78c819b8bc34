<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\Command;
use Undercroft\Feed;
use Undercroft\Serializer\Serializer;

/**
 * Provides the methods of clients and pipelines that belong to no command family.
 *
 * The class that uses this trait implements call(), which runs or queues a command.
 */
trait Base
{
    private string $prefix = '';

    private ?Serializer $serializer = null;

    /** @var array<string, Command> the registered commands, by lowercase name */
    private array $custom = [];

    /**
     * @param list<string|int|float> $words
     * @param string $shape how to convert the reply; '' leaves it unchanged
     * @param string|int|float|null $wait seconds that the command itself may wait; 0 means no limit
     */
    abstract protected function call(array $words, string $shape = '', string|int|float|null $wait = null): mixed;

    /** Runs or queues a command and converts its reply with a function. */
    abstract protected function converted(array $words, ?callable $convert): mixed;

    /**
     * Returns the family of a method whose family is not loaded yet, or null if no family has the
     * method.
     */
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

    /** Returns a Feed, which is a list of fixed-size values with attributes. */
    public function feed(string $key): Feed
    {
        return new Feed(fn (array $words, ?callable $convert): mixed => $this->converted($words, $convert),
            $this->prefix . $key);
    }

    /**
     * Calls a method of a family that is not loaded yet, a registered command, or a command that
     * the client's command table lacks.
     */
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
