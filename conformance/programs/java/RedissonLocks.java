import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBucket;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTopic;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson: locks of several kinds under contention, queues, delays, topics, rate limits. */
public final class RedissonLocks {
    private static RedissonClient client(String url) {
        Config config = new Config();
        config.setLockWatchdogTimeout(1500);
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
        return Redisson.create(config);
    }

    private static void check(boolean holds, String words) {
        if (!holds) {
            throw new AssertionError(words);
        }
    }

    /** Increments a number that only a lock protects, in threads of two clients. */
    private static void contend(RLock one, RLock two, RBucket<Integer> number) throws Exception {
        number.set(0);
        ExecutorService threads = Executors.newFixedThreadPool(6);
        List<Future<?>> ends = new ArrayList<>();
        for (int thread = 0; thread < 6; thread++) {
            RLock lock = thread % 2 == 0 ? one : two;
            Callable<Void> count = () -> {
                for (int round = 0; round < 15; round++) {
                    lock.lock();
                    try {
                        number.set(number.get() + 1);
                    } finally {
                        lock.unlock();
                    }
                }
                return null;
            };
            ends.add(threads.submit(count));
        }
        for (Future<?> end : ends) {
            end.get(20, TimeUnit.SECONDS);
        }
        threads.shutdown();
        check(number.get() == 90, "expected 90, counted " + number.get());
    }

    private static void locks(RedissonClient here, RedissonClient there) throws Exception {
        RBucket<Integer> number = here.getBucket("number");
        contend(here.getLock("lock"), there.getLock("lock"), number);
        contend(here.getFairLock("fair"), there.getFairLock("fair"), number);

        RLock held = here.getLock("held");
        RLock wanted = there.getLock("held");
        held.lock();
        held.lock();
        check(held.getHoldCount() == 2, "a lock is not taken twice by its owner");
        check(!wanted.tryLock(2, TimeUnit.SECONDS), "the watchdog has not prolonged a lock");
        held.unlock();
        check(!wanted.tryLock(), "a lock that is held once more was taken");
        held.unlock();
        check(wanted.tryLock(), "a lock that was given back is not free");
        wanted.unlock();
        held.lock(200, TimeUnit.MILLISECONDS);
        check(wanted.tryLock(10, TimeUnit.SECONDS), "a lock does not expire");
        wanted.unlock();

        RReadWriteLock ours = here.getReadWriteLock("both");
        RReadWriteLock theirs = there.getReadWriteLock("both");
        ours.readLock().lock();
        check(theirs.readLock().tryLock(), "two do not read");
        check(!theirs.writeLock().tryLock(), "one writes while another reads");
        theirs.readLock().unlock();
        ours.readLock().unlock();
        check(theirs.writeLock().tryLock(), "nobody writes");
        theirs.writeLock().unlock();

        RSemaphore semaphore = here.getSemaphore("semaphore");
        semaphore.trySetPermits(2);
        semaphore.acquire(2);
        check(!there.getSemaphore("semaphore").tryAcquire(), "three permits of two");
        semaphore.release();
        check(there.getSemaphore("semaphore").tryAcquire(1, Duration.ofSeconds(10)), "no permit");
        RCountDownLatch latch = here.getCountDownLatch("latch");
        latch.trySetCount(1);
        there.getCountDownLatch("latch").countDownAsync();
        check(latch.await(10, TimeUnit.SECONDS), "the latch does not open");
    }

    private static void queues(RedissonClient here, RedissonClient there) throws Exception {
        RBlockingQueue<String> queue = here.getBlockingQueue("queue");
        ExecutorService waiting = Executors.newSingleThreadExecutor();
        Future<String> taken = waiting.submit(() -> queue.poll(20, TimeUnit.SECONDS));
        there.getBlockingQueue("queue").offer("first");
        check("first".equals(taken.get(20, TimeUnit.SECONDS)), "an item is lost");
        waiting.shutdown();

        RDelayedQueue<String> delayed = there.getDelayedQueue(there.<String>getBlockingQueue("queue"));
        long begun = System.nanoTime();
        delayed.offer("later", 1, TimeUnit.SECONDS);
        delayed.offer("soon", 300, TimeUnit.MILLISECONDS);
        check("soon".equals(queue.poll(20, TimeUnit.SECONDS)), "the order of delays is wrong");
        check("later".equals(queue.poll(20, TimeUnit.SECONDS)), "a delayed item is lost");
        check(System.nanoTime() - begun >= 900_000_000L, "an item came early");
        delayed.destroy();

        AtomicInteger heard = new AtomicInteger();
        RCountDownLatch all = here.getCountDownLatch("heard");
        all.trySetCount(5);
        RTopic topic = here.getTopic("topic");
        topic.addListener(Integer.class, (channel, message) -> {
            heard.addAndGet(message);
            all.countDown();
        });
        for (int message = 0; message < 5; message++) {
            check(there.getTopic("topic").publish(message) == 1, "nobody listens");
        }
        check(all.await(20, TimeUnit.SECONDS) && heard.get() == 10, "messages are lost");
    }

    private static void values(RedissonClient here) throws Exception {
        RMapCache<String, Integer> map = here.getMapCache("map");
        map.put("short", 1, 200, TimeUnit.MILLISECONDS);
        map.put("long", 2);
        check(map.replace("long", 2, 5), "a value was not replaced");
        long end = System.nanoTime() + 20_000_000_000L;
        while (map.containsKey("short")) {
            check(System.nanoTime() < end, "an entry does not expire");
        }
        check(map.readAllMap().equals(Map.of("long", 5)), "a wrong map");
        map.destroy();

        RRateLimiter limiter = here.getRateLimiter("limiter");
        limiter.trySetRate(RateType.OVERALL, 3, Duration.ofMinutes(1));
        int granted = 0;
        for (int attempt = 0; attempt < 5; attempt++) {
            granted += limiter.tryAcquire() ? 1 : 0;
        }
        check(granted == 3, "a limit of 3 granted " + granted);
    }

    /** Runs all parts of the program at the given URL. */
    public static void main(String[] arguments) {
        String url = arguments[0].replaceAll("/0$", "");
        try {
            RedissonClient here = client(url);
            RedissonClient there = client(url);
            locks(here, there);
            queues(here, there);
            values(here);
            here.shutdown();
            there.shutdown();
        } catch (Throwable error) {
            error.printStackTrace();
            // Exit explicitly, because the clients' threads keep the process alive.
            System.exit(1);
        }
    }

    private RedissonLocks() {}
}
