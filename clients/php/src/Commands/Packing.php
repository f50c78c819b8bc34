<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** How methods of commands make words of their arguments: keys get the prefix, and values go through the serializer. */
trait Packing
{
    /**
     * @param list<string|int|float> $words
     * @param string $shape what becomes of the reply; '' leaves it as it is
     * @param string|int|float|null $wait how many seconds the command itself may wait; 0 is without end
     */
    abstract protected function call(array $words, string $shape = '', string|int|float|null $wait = null): mixed;

    /** A pattern for keys of our prefix. */
    private function pattern(string $pattern): string
    {
        return $this->prefix === '' ? $pattern : addcslashes($this->prefix, '*?[]\\') . $pattern;
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

    private function prefixed(array $keys): array
    {
        return Words::prefixed($keys, $this->prefix);
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
