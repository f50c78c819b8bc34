--TEST--
Channel: waits interrupted by signals, holds, and wrong calls
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';

use Undercroft\Native\Channel;

$store = open_store();
$jobs = new Channel($store, 'jobs', 2);
same(null, $jobs->receive(0), 'empty');
same(true, $jobs->send("a\0b"), 'sent');
same(true, $jobs->sendArray('<i2', [1, 2], 'abcd', 0.0), 'sent');
same(false, $jobs->sendText('full', 0.01), 'full');
same(['b', "a\0b", null, null], $jobs->receive(), 'bytes');
same(['a', 'abcd', '<i2', [1, 2]], $jobs->receive(1), 'an array');

// A handler sends a message during a wait. The wait then continues, or ends if the handler throws.
pcntl_async_signals(true);
pcntl_signal(SIGALRM, function () use ($jobs): void {
    $jobs->send('from a handler');
});
pcntl_alarm(1);
same('from a handler', $jobs->receive()[1], 'waited for');
pcntl_signal(SIGALRM, fn () => throw new LogicException('enough'));
pcntl_alarm(1);
fails('LogicException: enough', fn () => $jobs->receive(), 'the handler throws');
$jobs->send('one');
$jobs->send('two');
pcntl_alarm(1);
fails('LogicException: enough', fn () => $jobs->send('three'), 'the handler throws');
same(2, $jobs->length(), 'nothing was sent');

// The object that holds a message gives it back.
$held = $jobs->hold();
same(['b', 'one', null, null], $held->message(), 'held');
same(1, $jobs->length(), 'held');
$held = null;
same(2, $jobs->length(), 'given back');
$held = $jobs->hold(0);
same('one', $held->message()[1], 'in front');
same(1, in_child(function () use ($held): int {
    fails('Undercroft\StoreException: this delivery belongs to process', fn () => $held->end(true), 'inherited');
    return 1;
}), 'a child');
same(true, $held->end(false), 'acknowledged');
same(false, $held->end(false), 'once');
same(null, $held->message(), 'ended');
fails('Error: ', fn () => clone $jobs, 'no clone');
fails('Exception: ', fn () => serialize($held), 'no serialization');

// The channel outlives the store's object.
$store->close();
$store = null;
same('two', $jobs->receive()[1], 'open');
$jobs->close();
same([true, null, false, false], [$jobs->isClosed(), $jobs->send('late'), $jobs->receive(), $jobs->hold()], 'closed');
$jobs->delete();
same([false, true], [$jobs->isClosed(), $jobs->send('again')], 'open again');

$store = open_store();
fails('ValueError: ', fn () => new Channel($store, ''), 'no name');
fails('ValueError: ', fn () => new Channel($store, 'a', -1), 'a bound');
fails('ValueError: ', fn () => new Channel($store, 'a', 1, -1), 'a time to live');
fails('ValueError: ', fn () => $jobs->receive(-1), 'a time');
fails('ValueError: ', fn () => $jobs->send('x', NAN), 'a time');
fails('ValueError: ', fn () => $jobs->sendArray('<f8', ['x'], ''), 'a shape');
fails('ValueError: ', fn () => $jobs->sendArray('<f8', array_fill(0, 65, 1), ''), 'a shape');
fails('Undercroft\StoreException: ', fn () => $jobs->sendArray('<f8', [2], 'too short'), 'a shape');
fails('Undercroft\StoreException: ', fn () => $jobs->sendText("\xff"), 'no text');
$store->close();
fails('Undercroft\StoreException: ', fn () => new Channel($store, 'a'), 'a closed store');

// A message that exceeds the memory limit is lost, and not the store.
$large = new Channel(open_store(), 'large');
$large->send(str_repeat('x', 8 << 20));
[$printed] = in_php('(new Undercroft\Native\Channel(new Undercroft\Native\Store($path), "large"))->receive();',
    ['memory_limit' => '6M']);
same(true, str_contains($printed, 'Allowed memory size'), $printed);
same(0, $large->length(), 'lost');
echo 'done';
?>
--EXPECT--
done
