<?php

declare(strict_types=1);

namespace Undercroft\Cache;

use Psr\Cache\CacheItemInterface;
use Psr\Cache\CacheItemPoolInterface;
use Undercroft\Client;
use Undercroft\Serializer\Serializer;

/**
 * A PSR-6 cache: `new Pool($client, 'php')`. Deferred items are stored by commit() or by the pool's
 * destructor.
 */
final class Pool implements CacheItemPoolInterface
{
    private readonly Store $store;

    /** @var array<string, Item> */
    private array $deferred = [];

    public function __construct(Client $client, string|Serializer $serializer, string $prefix = 'cache:')
    {
        $this->store = new Store($client, $serializer, $prefix);
    }

    public function __destruct()
    {
        $this->commit();
    }

    public function getItem($key): CacheItemInterface
    {
        $key = InvalidKey::check($key);
        return $this->items([$key])[$key];
    }

    public function getItems(array $keys = []): iterable
    {
        return $this->items(array_map(InvalidKey::check(...), array_values($keys)));
    }

    public function hasItem($key): bool
    {
        $deferred = $this->deferred(InvalidKey::check($key));
        return $deferred !== null || $this->store->has($key);
    }

    public function clear(): bool
    {
        $this->deferred = [];
        return $this->store->clear();
    }

    public function deleteItem($key): bool
    {
        return $this->deleteItems([$key]);
    }

    public function deleteItems(array $keys): bool
    {
        $keys = array_map(InvalidKey::check(...), array_values($keys));
        foreach ($keys as $key) {
            unset($this->deferred[$key]);
        }
        return $this->store->remove($keys);
    }

    public function save(CacheItemInterface $item): bool
    {
        if (!$item instanceof Item) {
            throw new InvalidKey('expected an item of this pool, got ' . get_debug_type($item));
        }
        unset($this->deferred[$item->getKey()]);
        return $this->store->put($item->getKey(), $item->get(), $item->left());
    }

    public function saveDeferred(CacheItemInterface $item): bool
    {
        if (!$item instanceof Item) {
            throw new InvalidKey('expected an item of this pool, got ' . get_debug_type($item));
        }
        $this->deferred[$item->getKey()] = $item->found();
        return true;
    }

    public function commit(): bool
    {
        $items = [];
        foreach ($this->deferred as $key => $item) {
            $items[] = [(string) $key, $item->get(), $item->left()];
        }
        $this->deferred = [];
        return $items === [] || $this->store->putMany($items);
    }

    private function deferred(string $key): ?Item
    {
        $item = $this->deferred[$key] ?? null;
        return $item === null || ($item->left() ?? 1) <= 0 ? null : clone $item;
    }

    /**
     * @param list<string> $keys
     *
     * @return array<string, Item>
     */
    private function items(array $keys): array
    {
        $items = $wanted = [];
        foreach ($keys as $key) {
            $items[$key] = $this->deferred($key);
            if ($items[$key] === null) {
                $wanted[] = $key;
            }
        }
        $found = $this->store->fetch($wanted);
        foreach ($wanted as $key) {
            $items[$key] = isset($found[$key]) ? new Item($key, $found[$key][0], true) : new Item($key, null, false);
        }
        return $items;
    }
}
