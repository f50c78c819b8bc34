<?php

declare(strict_types=1);

/**
 * Generates the families and the table in src/Commands from tools/commands.php, tools/others.php
 * and a server's command table:
 *
 *     php clients/php/tools/generate.php tcp://127.0.0.1:6379 [FOLDER]
 *
 * The server must be `undercroft serve`. A test regenerates the files and compares them.
 */

require __DIR__ . '/../autoload.php';

use Undercroft\ArgumentException;
use Undercroft\Connection\Address;
use Undercroft\Connection\Options;
use Undercroft\Connection\StreamConnection;

final class Maker
{
    private const TYPES = [
        'int' => 'int', 'bool' => 'bool', 'string' => 'string', 'float' => 'float|null', 'list' => 'list<string>',
        'value' => 'mixed the value, or null', 'values' => 'mixed the value or the list of values',
        'hash' => 'array<string, mixed>', 'scores' => 'array<string, float> member => score',
        'members' => 'list<mixed>|array<string, float> with scores: member => score',
        'bools' => 'list<bool>', 'floats' => 'list<float|null>', 'keyed' => 'array{string, mixed}|null key and value',
        'scored' => 'array{string, mixed, float}|null key, member and score',
        'popped' => 'array{string, array}|null key, and what was taken from it',
        'fields' => 'mixed', 'positions' => 'list<array{float, float}|null>', 'places' => 'array|int',
        'info' => 'array<string, mixed>', 'settings' => 'mixed', 'clients' => 'mixed', 'numbers' => 'mixed',
        'lcs' => 'mixed', 'raw' => 'mixed', 'done' => 'mixed true where there is nothing to tell',
        'claimed' => 'array{string, array, list<string>} where to go on, id => [field => value], and those deleted',
        'told' => 'array<array-key, mixed>', 'acl' => 'mixed', 'cluster' => 'mixed', 'functions' => 'mixed',
        'modules' => 'mixed',
    ];

    /** The handwritten families. */
    private const WRITTEN = ['StreamsWritten', 'Written'];

    /** @var array<string, array<string, string>> */
    private array $docs = [];

    /** @var array<string, array> */
    private array $infos = [];

    /** @param array<string, array> $others the contents of tools/others.php */
    public function __construct(StreamConnection $connection, private readonly array $others)
    {
        foreach (array_chunk($connection->execute(['COMMAND', 'DOCS']), 2) as [$name, $flat]) {
            foreach (array_chunk($flat, 2) as [$field, $value]) {
                $this->docs[strtoupper($name)][$field] = $value;
            }
        }
        foreach ($connection->execute(['COMMAND']) as $info) {
            $this->infos[strtoupper($info[0])] = $info;
        }
        foreach ($this->others as $name => [$summary, $complexity, $syntax]) {
            $this->docs[$name] = ['summary' => $summary, 'complexity' => $complexity, 'syntax' => $syntax];
        }
    }

    /** @return array<string, string> file => text */
    public function files(array $families): array
    {
        $files = [];
        foreach ($families as $family => $commands) {
            $methods = [];
            foreach ($commands as $name => $line) {
                $methods[] = $this->method($name, $line);
            }
            $files["Commands/$family.php"] = "<?php\n\ndeclare(strict_types=1);\n\nnamespace Undercroft\\Commands;\n\n"
                . "/** Made by tools/generate.php of tools/commands.php. */\n"
                . "trait $family\n{\n" . implode("\n", $methods) . "}\n";
        }
        $files['Commands/Table.php'] = $this->table($families);
        $files['Commands/Families.php'] = $this->families($families);
        return $files;
    }

    /**
     * Returns the text of Families.php, which maps each method to its family. The handwritten
     * families are included.
     */
    private function families(array $families): string
    {
        $methods = $cases = '';
        foreach ([...array_keys($families), ...self::WRITTEN] as $family) {
            $text = file_get_contents(__DIR__ . "/../src/Commands/$family.php");
            $names = isset($families[$family])
                ? array_map(static fn (string $line): string => explode('(', $line)[0], $families[$family])
                : (preg_match_all('~^    public function (\w+)~m', (string) $text, $found) ? $found[1] : []);
            $names = array_map(strtolower(...), $names);
            sort($names);
            $pairs = array_map(static fn (string $name): string => "'$name'=>'$family'", $names);
            $list = wordwrap(implode(', ', $pairs), 92, "\n        ");
            $methods .= '        ' . str_replace('=>', ' => ', $list) . ",\n";
            $cases .= "            '$family' => new class (\$prefix, \$serializer) extends Family {\n"
                . "                use Packing;\n                use $family;\n            },\n";
        }
        $names = array_map(static fn (string $name): string => "'$name'", [...array_keys($families), ...self::WRITTEN]);
        return "<?php\n\ndeclare(strict_types=1);\n\nnamespace Undercroft\\Commands;\n\n"
            . "use Undercroft\\Serializer\\Serializer;\n\n"
            . "/** The families of methods, and which one each method is of. Made by tools/generate.php. */\n"
            . "final class Families\n{\n    public const NAMES = [\n        "
            . wordwrap(implode(', ', $names), 110, "\n        ") . ",\n    ];\n\n"
            . "    /** By the names of methods in small letters. */\n    private const OF = [\n$methods    ];\n\n"
            . "    /** The family of a method; null where no command has this name. */\n"
            . "    public static function of(string \$method, string \$prefix, ?Serializer \$serializer): ?Family\n"
            . "    {\n        \$family = self::OF[strtolower(\$method)] ?? null;\n"
            . "        return \$family === null ? null : self::make(\$family, \$prefix, \$serializer);\n    }\n\n"
            . "    /** Loads a family. */\n"
            . "    public static function make(string \$family, string \$prefix, ?Serializer \$serializer): Family\n"
            . "    {\n        return match (\$family) {\n$cases        };\n    }\n}\n";
    }

    private function method(string $name, string $line): string
    {
        if (!preg_match('~^(\w+)\((.*)\): (\w+)(?: wait=(-?\d+))?$~D', $line, $found)) {
            throw new ArgumentException("expected a method of $name, got '$line'");
        }
        [, $method, $list, $reply] = $found;
        $parameters = $words = [];
        foreach ($list === '' ? [] : explode(',', $list) as $each) {
            [$parameter, $word] = $this->parameter($each, $name);
            $parameters[] = $parameter;
            $words[] = $word;
        }
        $type = self::TYPES[$reply] ?? throw new ArgumentException("no type for the reply '$reply' of $name");
        $shape = in_array($reply, ['raw', 'int', 'string', 'list'], true) ? '' : ", '$reply'";
        $wait = $found[4] ?? '';
        if ($wait !== '') {
            $shape .= ', $timeout';
        }
        $doc = $this->docs[$name] ?? [];
        $syntax = trim($name . ' ' . ($doc['syntax'] ?? ''));
        $text = ($doc['summary'] ?? "Runs the subcommands of $name.")
            . (isset($doc['complexity']) ? " Time: {$doc['complexity']}." : '');
        $comment = "    /**\n     * " . wordwrap($text, 112, "\n     * ") . "\n     *\n     * "
            . wordwrap("`$syntax`", 112, "\n     * ") . "\n     *\n     * @return $type\n     */\n";
        $words = ["'$name'", ...$words];
        $head = "    public function $method(" . implode(', ', $parameters) . '): mixed';
        $head .= strlen($head) <= 120 ? "\n    {\n" : '';
        if (!str_ends_with($head, "{\n")) {
            $head = "    public function $method(\n        " . implode(",\n        ", $parameters)
                . ",\n    ): mixed {\n";
        }
        $body = '        return $this->call([' . implode(', ', $words) . "]$shape);\n";
        if (strlen($body) > 120) {
            $body = "        return \$this->call([\n            " . implode(",\n            ", $words)
                . ",\n        ]$shape);\n";
        }
        return "$comment$head$body    }\n";
    }

    /**
     * @return array{string, string} the parameter's declaration, and the expression for its words
     */
    private function parameter(string $text, string $command): array
    {
        $bare = str_contains($text, '/') ? explode('/', $text)[0] : null;
        if ($text === 'key' || $bare !== null) {
            $name = $bare ?? 'key';
            return ["string \$$name", "\$this->prefix . \$$name"];
        }
        [$name, $isValue] = [explode(':', $text)[0], str_ends_with($text, ':value')];
        return match (true) {
            $name === 'keys' => ['string|array $keys', '...$this->prefixed((array) $keys)'],
            $name === 'keys...' => ['string|array ...$keys', '...$this->prefixed($keys)'],
            $name === '#keys' => ['string|array $keys', '...Words::counted($this->prefixed((array) $keys))'],
            $name === 'options' => ['mixed ...$options', preg_match('~^Z(UNION|INTER)(STORE)?$~D', $command)
                ? '...Words::weighed($options)' : '...Words::options($options)'],
            $name === 'keyOptions' => ['mixed ...$options', "...\$this->keyOptions(\$options, "
                . (str_starts_with($command, 'SORT') ? "'BY', 'GET', 'STORE')" : "'STORE', 'STOREDIST')")],
            $name === 'pairs' => ['array $pairs', '...$this->pairs($pairs)'],
            $name === 'keyPairs' => ['array $pairs', '...$this->keyPairs($pairs)'],
            str_ends_with($name, '...') => ['mixed ...$' . substr($name, 0, -3), $isValue
                ? '...$this->packed($' . substr($name, 0, -3) . ')' : '...Words::flat($' . substr($name, 0, -3) . ')'],
            str_ends_with($name, '?') => ['string|int|float|null $' . substr($name, 0, -1) . ' = null',
                '...($' . substr($name, 0, -1) . ' === null ? [] : [$' . substr($name, 0, -1) . '])'],
            $isValue => ["mixed \$$name", "\$this->pack(\$$name)"],
            default => ["string|int|float \$$name", "\$$name"],
        };
    }

    private function table(array $families): string
    {
        $reads = $keys = $waits = [];
        foreach (array_diff_key($this->infos, $this->others) as $name => $info) {
            $isRead = in_array('readonly', $info[2], true);
            if ($isRead || in_array($name, ['PING', 'ECHO', 'TIME', 'INFO', 'DBSIZE'], true)) {
                $reads[] = $name;
            }
            $keys[$name] = $this->keys($info);
        }
        foreach ($this->others as $name => [, , , $where, $isRead]) {
            $keys[$name] = $where;
            if ($isRead) {
                $reads[] = $name;
            }
        }
        // The keys of these commands follow the word STREAMS: see KeyWords.
        unset($keys['XREAD'], $keys['XREADGROUP']);
        foreach ($families as $commands) {
            foreach ($commands as $name => $line) {
                if (preg_match('~ wait=(-?\d+)$~', $line, $found)) {
                    $waits[$name] = $found[1];
                }
            }
        }
        $keyless = array_keys(array_filter($keys, static fn (string $where): bool => $where === ''));
        sort($keyless);
        $keys = array_filter($keys);
        sort($reads);
        ksort($keys);
        ksort($waits);
        $lines = static function (array $items): string {
            return wordwrap(implode(', ', $items), 90, "\n        ");
        };
        $pairs = static fn (array $map): array => array_map(
            static fn (string $name, string $value): string => "'$name'=>$value",
            array_keys($map), $map);
        $text = "<?php\n\ndeclare(strict_types=1);\n\nnamespace Undercroft\\Commands;\n\n"
            . "/** What is known of commands. Made by tools/generate.php of a server's command table. */\n"
            . "final class Table\n{\n    /** Commands that change nothing, which may be sent twice. */\n"
            . "    public const READS = [\n        "
            . $lines(array_map(static fn (string $name): string => "'$name'=>true", $reads)) . ",\n    ];\n\n"
            . "    /**\n     * Where the keys of commands are among their words: the first, the last (from the end "
            . "where negative) and the step;\n     * or the word with their number, which stands before them.\n"
            . "     */\n    public const KEYS = [\n        " . $lines($pairs($keys)) . ",\n    ];\n\n"
            . "    /** Commands that have no keys. */\n    public const KEYLESS = [\n        "
            . $lines(array_map(static fn (string $name): string => "'$name'=>true", $keyless)) . ",\n    ];\n\n"
            . "    /** Commands that wait, and which of their words is the time-out; from the end where negative. */\n"
            . "    public const WAITS = [\n        " . $lines($pairs($waits)) . ",\n    ];\n}\n";
        return preg_replace('~,(?=-?\d)~', ', ', str_replace('=>', ' => ', $text)) ?? '';
    }

    /** Returns the positions of a command's keys, from the first usable key specification. */
    private function keys(array $info): string
    {
        [, , , $first, $last, $step] = $info;
        if ($first > 0) {
            return "[$first,$last,$step]";
        }
        foreach ($info[8] ?? [] as $spec) {
            $spec = $this->map($spec);
            $begin = $this->map($this->map($spec['begin_search'])['spec'] ?? []);
            $find = $this->map($spec['find_keys']);
            if ($find['type'] === 'keynum' && isset($begin['index'])) {
                return "[{$begin['index']}]";
            }
        }
        return '';
    }

    private function map(array $flat): array
    {
        $map = [];
        foreach (array_chunk($flat, 2) as [$name, $value]) {
            $map[$name] = $value;
        }
        return $map;
    }
}

$maker = new Maker(new StreamConnection(Address::of($argv[1]), new Options()), require __DIR__ . '/others.php');
$folder = $argv[2] ?? __DIR__ . '/../src';
foreach ($maker->files(require __DIR__ . '/commands.php') as $file => $text) {
    if (!is_dir(dirname("$folder/$file"))) {
        mkdir(dirname("$folder/$file"), 0o777, true);
    }
    file_put_contents("$folder/$file", $text);
}
