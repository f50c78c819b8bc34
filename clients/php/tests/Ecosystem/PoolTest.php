<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

require_once '/usr/share/php/Psr/Cache/autoload.php';
require_once '/usr/share/php/Psr/SimpleCache/autoload.php';
require_once '/usr/share/php/Cache/IntegrationTests/autoload.php';

use Cache\IntegrationTests\CachePoolTest;
use Psr\Cache\CacheItemPoolInterface;
use Undercroft\Cache\Pool;
use Undercroft\Client;
use Undercroft\Tests\EngineCase;

/** Runs the php-cache suite for PSR-6 pools. */
final class PoolTest extends CachePoolTest
{
    public function createCachePool(): CacheItemPoolInterface
    {
        return new Pool(EngineCase::connect(), 'php');
    }
}
