--TEST--
Parser: replies split at any byte, and invalid bytes
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
use Undercroft\Native\Parser;

/** Returns all replies that a parser finds in bytes that it receives in pieces of `$size` bytes. */
function replies(string $bytes, int $size): array
{
    $parser = new Parser();
    $found = [];
    foreach (str_split($bytes, $size) as $piece) {
        $parser->feed($piece);
        while ($parser->next()) {
            $reply = $parser->reply();
            $found[] = $reply instanceof Undercroft\ServerException ? 'error ' . $reply->getMessage() : $reply;
        }
    }
    same(false, $parser->hasBytes(), 'nothing is left');
    return $found;
}

$cases = [
    "+OK\r\n" => 'OK', "+\r\n" => '', "-ERR no\r\n" => 'error ERR no', ":0\r\n" => 0, ":-12\r\n" => -12, ":+5\r\n" => 5,
    ":9223372036854775807\r\n" => PHP_INT_MAX, ":-9223372036854775808\r\n" => PHP_INT_MIN,
    "$-1\r\n" => null, "$0\r\n\r\n" => '', "$1\r\na\r\n" => 'a', "$4\r\n\r\n\r\n\r\n" => "\r\n\r\n",
    "*-1\r\n" => null, "*0\r\n" => [], "*2\r\n:1\r\n*1\r\n$-1\r\n" => [1, [null]], "_\r\n" => null, "#t\r\n" => true,
    "#f\r\n" => false, ",1.5\r\n" => 1.5, ",-1e3\r\n" => -1000.0, ",inf\r\n" => INF, ",-inf\r\n" => -INF,
        ",10\r\n" => 10.0,
    "(12345678901234567890\r\n" => '12345678901234567890', "!5\r\nERR a\r\n" => 'error ERR a', "=5\r\ntxt:a\r\n" => 'a',
    "%2\r\n+a\r\n:1\r\n:7\r\n*0\r\n" => ['a' => 1, 7 => []], "%0\r\n" => [], "~2\r\n+a\r\n+b\r\n" => ['a', 'b'],
    ">2\r\n+a\r\n:1\r\n" => ['a', 1], "|1\r\n+about\r\n+it\r\n:3\r\n" => 3,
    "*2\r\n|1\r\n+k\r\n*2\r\n:1\r\n:2\r\n:3\r\n:4\r\n" => [3, 4],
];
foreach ($cases as $bytes => $expected) {
    foreach (range(1, max(strlen($bytes), 1)) as $size) {
        same([$expected], replies($bytes, $size), addcslashes($bytes, "\r\n") . " in pieces of $size");
    }
}
$all = implode('', array_keys($cases));
foreach ([1, 2, 3, 7, 64, strlen($all)] as $size) {
    same(array_values($cases), replies($all, $size), "all in pieces of $size");
}
$long = str_repeat("0123456789\r\n", 100_000);
same([$long, 1], replies('$' . strlen($long) . "\r\n$long\r\n:1\r\n", 4096), 'a long string');
same([array_fill(0, 100_000, 'item')], replies("*100000\r\n" . str_repeat("$4\r\nitem\r\n", 100_000), 10_000),
    'a long list');
$deep = str_repeat("*1\r\n", 64) . ":1\r\n";
same(1, count(replies($deep, 5)), 'deep');

$wrong = ["x\r\n", "\r\n", "$\r\n", "$-2\r\n", "$1x\r\n", "$3\r\nabcd\r\n", "*x\r\n", "*-2\r\n", "%-1\r\n", ":x\r\n",
    ":\r\n",
    ":1 2\r\n", ":9223372036854775808\r\n", "#x\r\n", "#\r\n", ",x\r\n", ",\r\n", ",1x\r\n",
        "$99999999999999999999\r\n",
    "*1099511627777\r\n", "%1\r\n*0\r\n:1\r\n", '+' . str_repeat('a', 70_000), str_repeat("*1\r\n", 65) . ":1\r\n",
    str_repeat("%1\r\n+k\r\n", 70) . ":1\r\n", str_repeat("|0\r\n", 70) . ":1\r\n", "*2\r\n+a\r\n:x\r\n"];
foreach ($wrong as $bytes) {
    foreach ([1, strlen($bytes)] as $size) {
        $why = thrown(fn () => replies($bytes, $size));
        same(true, str_starts_with($why, 'Undercroft\ProtocolException: expected '), addcslashes(substr($bytes, 0,
            20), "\r\n") . " $why");
    }
}
$parser = new Parser();
$parser->feed("x\r\n");
thrown(fn () => $parser->next());
$parser->feed("+OK\r\n");
fails('Undercroft\ProtocolException: ', fn () => $parser->next(), 'broken stays broken');
fails('Error: expected a reply that next() found, got none', fn () => (new Parser())->reply(), 'no reply');

// Parsing replies with randomly changed bytes returns replies or throws a ProtocolException.
$seed = (int) (getenv('UNDERCROFT_SEED') ?: random_int(1, PHP_INT_MAX));
mt_srand($seed);
for ($i = 0; $i < 20_000; $i++) {
    $bytes = $all;
    $at = mt_rand(0, strlen($all) - 60);
    $bytes = substr($all, $at, 60);
    for ($k = mt_rand(0, 3); $k > 0; $k--) {
        $bytes[mt_rand(0, 59)] = "\r\n*\$%~>|:1239-+#,_(=!\0\xff"[mt_rand(0, 22)];
    }
    $parser = new Parser();
    try {
        foreach (str_split($bytes, mt_rand(1, 60)) as $piece) {
            $parser->feed($piece);
            while ($parser->next()) {
                $parser->reply();
            }
        }
    } catch (Undercroft\ProtocolException) {
    } catch (Throwable $thrown) {
        echo "seed $seed: $thrown\n";
    }
}
echo 'done';
?>
--EXPECT--
done
