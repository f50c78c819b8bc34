<?php

declare(strict_types=1);

namespace Undercroft\Cache;

use Symfony\Component\Cache\Adapter\AbstractAdapter;
use Symfony\Component\Cache\Marshaller\DefaultMarshaller;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;
use Undercroft\Client;

/**
 * A Symfony cache adapter that replaces RedisAdapter: `new SymfonyAdapter($client, 'namespace',
 * 3600)`.
 */
final class SymfonyAdapter extends AbstractAdapter
{
    private readonly MarshallerInterface $marshaller;

    public function __construct(
        private readonly Client $client,
        string $namespace = '',
        int $defaultLifetime = 0,
        ?MarshallerInterface $marshaller = null,
    ) {
        parent::__construct($namespace, $defaultLifetime);
        $this->marshaller = $marshaller ?? new DefaultMarshaller();
    }

    protected function doFetch(array $ids): iterable
    {
        $found = [];
        if ($ids !== []) {
            $ids = array_values($ids);
            foreach ($this->client->mGet($ids) as $at => $text) {
                if ($text !== null) {
                    $found[$ids[$at]] = $this->marshaller->unmarshall($text);
                }
            }
        }
        return $found;
    }

    protected function doHave(string $id): bool
    {
        return $this->client->exists($id) === 1;
    }

    protected function doClear(string $namespace): bool
    {
        if ($namespace === '') {
            return $this->client->flushDb();
        }
        return (new Store($this->client, 'json', $namespace))->clear();
    }

    protected function doDelete(array $ids): bool
    {
        $ids === [] || $this->client->unlink(array_values($ids));
        return true;
    }

    protected function doSave(array $values, int $lifetime): array|bool
    {
        $time = Store::milliseconds($lifetime > 0 ? $lifetime : null);
        $texts = $this->marshaller->marshall($values, $failed);
        $pipe = $this->client->pipeline();
        foreach ($texts as $id => $text) {
            $pipe->set((string) $id, $text, $time === null ? [] : ['px' => $time]);
        }
        $pipe->execute();
        return $failed;
    }
}
