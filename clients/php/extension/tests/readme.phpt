--TEST--
The sample program in README.md prints the documented output
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
preg_match('~^```php\n(.*?)^```$~ms', file_get_contents(__DIR__ . '/../README.md'), $found);
$program = str_replace('undercroft://demo', store_path(), $found[1], $count);
same(1, $count, 'the name of the store');
eval($program);
?>
--EXPECT--
hello
Array
(
    [0] => 5
    [1] => Array
        (
            [0] => ada
        )

)
