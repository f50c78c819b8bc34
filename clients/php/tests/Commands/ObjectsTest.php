<?php

declare(strict_types=1);

namespace Undercroft\Tests\Commands;

use Undercroft\ArgumentException;
use Undercroft\Objects;
use Undercroft\ServerException;
use Undercroft\Tests\EngineCase;

/**
 * Tests objects on every engine: stored objects are returned unchanged, and take() never deletes
 * other values.
 */
final class ObjectsTest extends EngineCase
{
    private function objects(): Objects
    {
        return new Objects(self::connect(['prefix' => 'other:', 'serializer' => 'json']));
    }

    public function testStoredObjectsComeBackUnchanged(): void
    {
        $objects = $this->objects();
        foreach ([0, 1, 63, 64, 40_000, 300_000] as $length) {
            $bytes = $length === 0 ? '' : random_bytes($length);
            $id = $objects->putBytes($bytes);
            self::assertTrue($objects->contains($id));
            $found = $objects->get($id);
            self::assertSame(['b', '', $bytes], [$found->kind, $found->description, $found->bytes]);
            self::assertNull($found->shape());
            self::assertSame($bytes, $objects->take($id)->bytes);
            self::assertNull($objects->take($id));
            self::assertNull($objects->get($id));
            self::assertFalse($objects->contains($id));
        }
        foreach ([[], [3], [0, 4], [100, 30]] as $shape) {
            $items = str_repeat('12345678', (int) array_product($shape));
            $found = $objects->take($objects->putArray('<f8', $shape, $items));
            self::assertSame(['<f8', $shape, $items], [$found->dtype(), $found->shape(), $found->bytes]);
        }
        self::assertSame(0, $this->client->dbSize());
    }

    public function testExpiryAndDeletion(): void
    {
        $objects = $this->objects();
        $id = $objects->putBytes('kept for a while', 100);
        self::assertGreaterThan(90, $this->client->ttl("object:$id"));
        self::assertSame(1, $objects->delete($id, 'none'));
        self::assertSame(0, $objects->delete());
        $this->expectException(ArgumentException::class);
        $objects->putBytes('', 0);
    }

    public function testValuesThatAreNotObjectsAreKept(): void
    {
        $objects = $this->objects();
        $values = ['foreign', "\xc1UO", "\xc1UOb\xff\xff\xff\xff"];
        foreach ($values as $value) {
            $this->client->set('object:foreign', $value);
            try {
                $objects->get('foreign');
                self::fail('it is no object');
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected an object', $error->getMessage());
            }
        }
        $this->client->set('object:foreign', 'foreign');
        $this->client->rPush('object:list', 'item');
        foreach (['foreign' => ArgumentException::class, 'list' => ServerException::class] as $id => $class) {
            try {
                $objects->take($id);
                self::fail('it is no object');
            } catch (ArgumentException | ServerException $error) {
                self::assertInstanceOf($class, $error);
            }
        }
        self::assertSame(2, $this->client->dbSize());
        $this->expectExceptionMessage('expected a type such as <f8');
        $objects->putArray("'", [1], 'x');
    }
}
