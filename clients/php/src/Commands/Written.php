<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\ArgumentException;
use Undercroft\Command;
use Undercroft\Feed;
use Undercroft\KeyWords;
use Undercroft\Serializer\Serializer;
use Undercroft\Words;

/**
 * The commands whose arguments follow no common pattern, and what all methods of commands share.
 *
 * Who uses this says in call() what becomes of a command: it is run, or queued.
 */
trait Written
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

    /**
     * Returns the string stored at a key. Time: O(1).
     *
     * @return mixed the value, or null
     */
    public function get(string $key): mixed
    {
        return $this->call(['GET', $this->prefix . $key], 'value');
    }

    /**
     * Stores a string at a key. Time: O(1).
     *
     * `set('k', 'v', ['nx', 'ex' => 10])`, `set('k', 'v', 10)` for ten seconds, `set('k', 'v', 'EX', 10, 'NX')`.
     * Options: `nx`, `xx`, `get`, `ex`, `px`, `exat`, `pxat`, `keepttl`.
     *
     * @return mixed whether it was stored; with `get` the old value or null
     */
    public function set(string $key, mixed $value, mixed ...$options): mixed
    {
        return $this->setWith($key, $value, $options);
    }

    private function setWith(string $key, mixed $value, array $options): mixed
    {
        $words = ['SET', $this->prefix . $key, $this->pack($value)];
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

    /**
     * Sets fields of a hash: `hSet('k', 'field', 'value', ...)` or `hSet('k', ['field' => 'value'])`. Time: O(N).
     *
     * @return int how many fields are new
     */
    public function hSet(string $key, mixed ...$fields): mixed
    {
        if (count($fields) === 1 && is_array($fields[0] ?? null)) {
            return $this->call(['HSET', $this->prefix . $key, ...$this->pairs($fields[0])]);
        }
        if (count($fields) % 2 !== 0 || $fields === []) {
            throw new ArgumentException('expected fields and values by turns, got ' . count($fields) . ' words');
        }
        $words = ['HSET', $this->prefix . $key];
        foreach (array_chunk($fields, 2) as [$field, $value]) {
            $words[] = $field;
            $words[] = $this->pack($value);
        }
        return $this->call($words);
    }

    /**
     * Adds members to a sorted set, or gives them other scores. Time: O(log(N)) for each member.
     *
     * `zAdd('k', ['ada' => 1.5, 'bob' => 2])`, `zAdd('k', ['nx', 'ch'], 1.5, 'ada')` or
     * `zAdd('k', 1.5, 'ada', 2, 'bob')`; options may also stand behind: `zAdd('k', ['ada' => 1.5], ['gt'])`.
     *
     * @return mixed how many are new; with `ch` how many changed; with `incr` the new score
     */
    public function zAdd(string $key, mixed ...$arguments): mixed
    {
        $options = $members = [];
        $plain = [];
        foreach ($arguments as $argument) {
            if (!is_array($argument)) {
                $plain[] = $argument;
            } elseif (self::areOptions($argument)) {
                array_push($options, ...Words::options([$argument]));
            } else {
                foreach ($argument as $member => $score) {
                    array_push($members, $score, $this->pack($member));
                }
            }
        }
        // Words of options, as Predis has them, stand before the first score.
        while (is_string($plain[0] ?? null) && self::areOptions([$plain[0]])) {
            $options[] = array_shift($plain);
        }
        foreach (array_chunk($plain, 2) as $pair) {
            if (count($pair) !== 2) {
                throw new ArgumentException('expected scores and members by turns, got ' . count($plain) . ' words');
            }
            array_push($members, $pair[0], $this->pack($pair[1]));
        }
        $isSum = in_array('INCR', array_map(self::capitals(...), $options), true);
        return $this->call(['ZADD', $this->prefix . $key, ...$options, ...$members], $isSum ? 'float' : '');
    }

    private static function areOptions(array $words): bool
    {
        foreach ($words as $name => $word) {
            $word = is_int($name) ? $word : $name;
            if (!is_string($word) || !in_array(strtoupper($word), ['NX', 'XX', 'GT', 'LT', 'CH', 'INCR'], true)) {
                return false;
            }
        }
        return $words !== [];
    }

    /**
     * Runs a script in Lua.
     *
     * As phpredis has it, `eval($script, [$key, $argument], 1)`, or as Predis has it,
     * `eval($script, 1, $key, $argument)`.
     */
    public function eval(string $script, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVAL', $script, $arguments));
    }

    /** Runs a script that the server has, by its SHA-1. Arguments are those of eval(). */
    public function evalSha(string $digest, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVALSHA', $digest, $arguments));
    }

    /** Runs a script that changes nothing. */
    public function evalRo(string $script, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVAL_RO', $script, $arguments));
    }

    /** The same by its SHA-1. */
    public function evalShaRo(string $digest, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVALSHA_RO', $digest, $arguments));
    }

    /** Runs a function of a library that the server has. Arguments are those of eval(). */
    public function fCall(string $function, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('FCALL', $function, $arguments));
    }

    /** The same of one that changes nothing. */
    public function fCallRo(string $function, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('FCALL_RO', $function, $arguments));
    }

    private function scriptWords(string $command, string $script, array $arguments): array
    {
        if (is_array($arguments[0] ?? null) || $arguments === []) {
            [$words, $count] = [Words::flat([$arguments[0] ?? []]), (int) ($arguments[1] ?? 0)];
        } else {
            $count = (int) array_shift($arguments);
            $words = Words::flat($arguments);
        }
        for ($at = 0; $at < $count && $at < count($words); $at++) {
            $words[$at] = $this->prefix . $words[$at];
        }
        return [$command, $script, $count, ...$words];
    }

    /**
     * Lists keys in small portions: `scan($cursor, ['match' => 'user:*', 'count' => 100, 'type' => 'hash'])`.
     *
     * @return array{string, list<string>} the next cursor, '0' at the end, and keys. See also scanIterator().
     */
    public function scan(string|int $cursor = 0, mixed ...$options): mixed
    {
        $words = Words::options($options);
        if ($this->prefix !== '') {
            $at = array_search('MATCH', array_map(self::capitals(...), $words), true);
            if ($at === false) {
                array_push($words, 'MATCH', $this->pattern('*'));
            } else {
                $words[$at + 1] = $this->pattern($words[$at + 1]);
            }
        }
        return $this->call(['SCAN', $cursor, ...$words], 'scan');
    }

    /**
     * Returns all keys that match a pattern, with their prefix. Time: O(N) for N keys.
     *
     * @return list<string>
     */
    public function keys(string $pattern): mixed
    {
        return $this->call(['KEYS', $this->pattern($pattern)]);
    }

    /** A pattern for keys of our prefix. */
    private function pattern(string $pattern): string
    {
        return $this->prefix === '' ? $pattern : addcslashes($this->prefix, '*?[]\\') . $pattern;
    }

    /** Tells of memory: `memory('usage', $key, ['samples' => 0])`. */
    public function memory(string $subcommand, ?string $key = null, mixed ...$options): mixed
    {
        $words = $key === null ? [] : [$this->prefix . $key];
        return $this->call(['MEMORY', $subcommand, ...$words, ...Words::options($options)]);
    }

    /** The words of options that may name keys and patterns of keys. */
    private function keyOptions(array $options, string ...$names): array
    {
        foreach ($options as $at => $option) {
            if (is_array($option) && in_array('GET', $names, true)) {
                $options[$at] = self::eachGet($option);
            }
        }
        $words = Words::options($options);
        if ($this->prefix !== '') {
            for ($at = 1; $at < count($words); $at++) {
                if (in_array(self::capitals($words[$at - 1]), $names, true) && $words[$at] !== '#') {
                    $words[$at] = $this->prefix . $words[$at];
                    $at++;
                }
            }
        }
        return $words;
    }

    /** A list of patterns of SORT's GET as one option each. */
    private static function eachGet(array $option): array
    {
        $gets = [];
        foreach ($option as $name => $value) {
            if (is_string($name) && strtoupper($name) === 'GET' && is_array($value)) {
                unset($option[$name]);
                foreach ($value as $pattern) {
                    array_push($gets, 'GET', $pattern);
                }
            }
        }
        return [...$option, ...$gets];
    }

    private static function capitals(mixed $word): string
    {
        return strtoupper((string) $word);
    }

    /** @return array{string, array<string, mixed>} the next cursor, and field => value */
    public function hScan(string $key, string|int $cursor = 0, mixed ...$options): mixed
    {
        return $this->call(['HSCAN', $this->prefix . $key, $cursor, ...Words::options($options)], 'scan:hash');
    }

    /** @return array{string, list<mixed>} the next cursor, and members */
    public function sScan(string $key, string|int $cursor = 0, mixed ...$options): mixed
    {
        return $this->call(['SSCAN', $this->prefix . $key, $cursor, ...Words::options($options)], 'scan:set');
    }

    /** @return array{string, array<string, float>} the next cursor, and member => score */
    public function zScan(string $key, string|int $cursor = 0, mixed ...$options): mixed
    {
        return $this->call(['ZSCAN', $this->prefix . $key, $cursor, ...Words::options($options)], 'scan:scores');
    }

    /** A list of values of one size with attributes: see Feed. */
    public function feed(string $key): Feed
    {
        return new Feed(fn (array $words, ?callable $convert): mixed => $this->converted($words, $convert),
            $this->prefix . $key);
    }

    /** Runs or queues a command whose reply a function makes a result of. */
    abstract protected function converted(array $words, ?callable $convert): mixed;

    /** Commands that were registered, and those of servers that are not in our table. */
    public function __call(string $name, array $arguments): mixed
    {
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

    private function prefixed(array $keys): array
    {
        $prefixed = [];
        foreach ($keys as $key) {
            if (is_array($key)) {
                array_push($prefixed, ...$this->prefixed($key));
            } else {
                $prefixed[] = $this->prefix . $key;
            }
        }
        return $prefixed;
    }

    private function pack(mixed $value): mixed
    {
        return $this->serializer === null ? $value : $this->serializer->encode($value);
    }

    /** Values that are any number of arguments: with a serializer, one array that stands alone is a list of values. */
    private function packed(array $values): array
    {
        if (count($values) === 1 && is_array($values[0] ?? null)) {
            $values = array_values($values[0]);
        }
        return $this->serializer === null ? $values : array_map($this->serializer->encode(...), $values);
    }

    private function pairs(array $pairs): array
    {
        $words = [];
        foreach ($pairs as $field => $value) {
            $words[] = $field;
            $words[] = $this->pack($value);
        }
        return $words;
    }

    private function keyPairs(array $pairs): array
    {
        $words = [];
        foreach ($pairs as $key => $value) {
            $words[] = $this->prefix . $key;
            $words[] = $this->pack($value);
        }
        return $words;
    }
}
