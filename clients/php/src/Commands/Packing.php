<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/**
 * Converts method arguments to command words: keys get the prefix, and values pass through the
 * serializer.
 */
trait Packing
{
    /**
     * @param list<string|int|float> $words
     * @param string $shape how to convert the reply; '' leaves it unchanged
     * @param string|int|float|null $wait seconds that the command itself may wait; 0 means no limit
     */
    abstract protected function call(array $words, string $shape = '', string|int|float|null $wait = null): mixed;

    /** Returns a pattern that matches only keys with the client's prefix. */
    private function pattern(string $pattern): string
    {
        return $this->prefix === '' ? $pattern : addcslashes($this->prefix, '*?[]\\') . $pattern;
    }

    /** Returns the words of options that may contain keys or key patterns. */
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

    /** Expands SORT's list of GET patterns into one GET option per pattern. */
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

    private function prefixed(array $keys): array
    {
        return Words::prefixed($keys, $this->prefix);
    }

    private function pack(mixed $value): mixed
    {
        return $this->serializer === null ? $value : $this->serializer->encode($value);
    }

    /** Serializes a variable number of values. A single array argument is a list of values. */
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
