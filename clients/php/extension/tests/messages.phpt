--TEST--
Store: messages, and waits interrupted by signals
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
$store = open_store();
same(0, $store->publish('news', 'nobody'), 'nobody listens');
$store->subscribe(['news', 'chat'], ['n*']);
same(2, $store->publish('news', "a\0b"), 'two listen');
same(['message', 'news', "a\0b"], $store->message(0), 'by name');
same(['pmessage', 'n*', 'news', "a\0b"], $store->message(1), 'by pattern');
same(null, $store->message(0), 'no more');
same(null, $store->message(0.01), 'no more in time');
$store->unsubscribe(['news'], ['n*']);
same(0, $store->publish('news', 'nobody'), 'unsubscribed');
fails('ValueError: ', fn () => $store->message(-1), 'a wrong time');
fails('ValueError: ', fn () => $store->message(NAN), 'a wrong time');
fails('Undercroft\S', fn () => $store->execute(['SUBSCRIBE', 'x']), 'not by a command');

// Another process publishes while this process waits.
$child = pcntl_fork();
if ($child === 0) {
    $other = open_store();
    while ($other->publish('chat', 'from a child') === 0) {
        usleep(1000);
    }
    exit(0);
}
same(['message', 'chat', 'from a child'], $store->message(), 'waited for');
pcntl_waitpid($child, $status);

// A signal handler runs during a wait. The wait then continues, or ends if the handler throws.
pcntl_async_signals(true);
$seen = 0;
pcntl_signal(SIGALRM, function () use (&$seen, $store): void {
    $seen++;
    $store->publish('chat', 'from a handler');
});
pcntl_alarm(1);
same(['message', 'chat', 'from a handler'], $store->message(30), 'the handler has run');
same(1, $seen, 'once');
pcntl_signal(SIGALRM, fn () => throw new DomainException('enough'));
pcntl_alarm(1);
fails('DomainException: enough', fn () => $store->message(), 'a handler that throws');
pcntl_alarm(1);
fails('DomainException: enough', fn () => $store->execute(['BLPOP', 'none', 0]), 'a handler that throws');
pcntl_signal(SIGALRM, fn () => null);
pcntl_alarm(1);
fails('Undercroft\StoreException: a signal interrupted the wait; nothing was changed',
    fn () => $store->execute(['BLPOP', 'none', 0]), 'a blocking command');
same(null, $store->execute(['BLPOP', 'none', 0.01]), 'in time');
same(1, $store->execute(['RPUSH', 'none', 'there']), 'an item');
same(['none', 'there'], $store->execute(['BLPOP', 'none', 0]), 'at once');
echo 'done';
?>
--EXPECT--
done
