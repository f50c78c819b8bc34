<?php

declare(strict_types=1);

namespace Undercroft\Tests\Ecosystem;

require_once '/usr/share/php/Psr/Cache/autoload.php';
require_once '/usr/share/php/Psr/SimpleCache/autoload.php';
require_once '/usr/share/php/Cache/IntegrationTests/autoload.php';

use Cache\IntegrationTests\SimpleCacheTest;
use Psr\SimpleCache\CacheInterface;
use Undercroft\Cache\SimpleCache;
use Undercroft\Tests\EngineCase;

/** Runs the php-cache suite for PSR-16 caches. */
final class SimpleTest extends SimpleCacheTest
{
    public function createSimpleCache(): CacheInterface
    {
        return new SimpleCache(EngineCase::connect(), 'php');
    }
}
