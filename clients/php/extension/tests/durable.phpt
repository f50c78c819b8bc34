--TEST--
Store: a journal, from which the store is recovered after all processes were killed and its file is gone
--EXTENSIONS--
undercroft
pcntl
posix
--FILE--
<?php
require __DIR__ . '/start.inc';
use Undercroft\Native\Store;

$path = store_path();
$folder = "$path-journal";
$options = ['durability' => 'always', 'journal' => $folder];

/** Removes the store and its journal. */
$remove = static function () use ($path, $folder): void {
    @unlink($path);
    foreach (glob("$folder/*") as $file) {
        unlink($file);
    }
    @rmdir($folder);
};

// Every write whose call has returned survives.
$pipes = [];
$children = [];
for ($writer = 0; $writer < 3; $writer++) {
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $pid = pcntl_fork();
    if ($pid === 0) {
        $store = new Store($path, $options);
        for ($number = 0;; $number++) {
            $store->set("$writer:$number", 'value');
            fwrite($pair[1], '.');
        }
    }
    fclose($pair[1]);
    $children[] = $pid;
    $pipes[] = $pair[0];
}
$known = [];
foreach ($pipes as $writer => $pipe) {
    $known[$writer] = strlen(stream_get_contents($pipe, 100));
}
foreach ($children as $pid) {
    posix_kill($pid, SIGKILL);
    pcntl_waitpid($pid, $status);
}
foreach ($pipes as $writer => $pipe) {
    // The calls whose reports are still in the pipe have returned as well.
    $known[$writer] += strlen(stream_get_contents($pipe));
}
unlink($path);
$store = new Store($path, ['journal' => $folder]);
$missing = 0;
foreach ($known as $writer => $count) {
    for ($number = 0; $number < $count; $number++) {
        $missing += $store->get("$writer:$number") !== 'value' ? 1 : 0;
    }
}
same(0, $missing, 'acknowledged writes');
same(true, array_sum($known) >= 300, 'writes');
unset($store);

// The options in the URL.
unlink($path);
$store = new Store("undercroft://$path?durability=always&journal=$folder");
same('value', $store->get('0:0'), 'recovered by URL');
unset($store);
$remove();
new Store("undercroft://$path?durability=everysec&journal=$folder");
same(true, glob("$folder/*.checkpoint") !== [], 'a journal');

// An existing store keeps its mode.
$warning = null;
set_error_handler(static function (int $level, string $text) use (&$warning): bool {
    $warning = $text;
    return true;
});
new Store($path, $options);
restore_error_handler();
same(true, str_contains((string) $warning, 'has durability everysec, not the requested always'), "another mode: $warning");

// A pipeline waits for the disk once: none of its changes is durable before it ends.
$remove();
$store = new Store($path, $options);
$position = static fn (string $info): string => preg_replace('/.*journal_durable_position:(\d+).*/s', '$1', $info);
$once = false;
// The thread that syncs once a second may sync during a pipeline.
for ($try = 0; $try < 50 && !$once; $try++) {
    $before = $position($store->execute(['INFO', 'persistence']));
    $commands = array_map(static fn (int $number): array => ['SET', 'k', "$try:$number"], range(0, 9));
    $replies = $store->pipeline([...$commands, ['INFO', 'persistence']]);
    $once = $position($replies[10]) === $before;
    same(true, str_contains($store->execute(['INFO', 'persistence']), 'journal_lag_bytes:0'), 'durable after a pipeline');
}
same(true, $once, 'a pipeline waits once');
unset($store);

foreach ([['durability' => 1], ['durability' => 'sometimes'], ['journal' => false], ['journal' => "a\0b"]] as $wrong) {
    $why = thrown(fn () => new Store($path, $wrong));
    same(true, str_contains($why, 'durability') || str_contains($why, 'journal'), json_encode($wrong) . ": $why");
}
$remove();
?>
done
--EXPECT--
done
