<?php

declare(strict_types=1);

namespace Undercroft\Tests\Commands;

use Undercroft\Script;
use Undercroft\Tests\EngineCase;

/**
 * Tests that numbers have a decimal point in every locale. The environment variable
 * UNDERCROFT_LOCALE sets the locale.
 */
final class NumbersTest extends EngineCase
{
    /**
     * Floats without a fraction, with an exponent, and with full precision, all of which must
     * survive a round trip.
     */
    private const FLOATS = [1.5, -0.25, 3.0, 1e21, 1.0E-7, 0.1 + 0.2, -1234567.875, 1e-300];

    public function testTheLocaleIsSet(): void
    {
        $isOther = (getenv('UNDERCROFT_LOCALE') ?: 'C') !== 'C';
        self::assertSame($isOther ? '1,5' : '1.5', sprintf('%.1f', 1.5));
    }

    public function testFloatsAsWords(): void
    {
        $c = $this->client;
        foreach (self::FLOATS as $float) {
            self::assertTrue($c->set('k', $float));
            self::assertSame($float, (float) $c->get('k'));
            $both = $c->pipeline(static fn ($pipe) => $pipe->set('k', $float)->get('k'));
            self::assertSame([true, $c->get('k')], $both);
            self::assertSame([true], $c->transaction(static fn ($queue) => $queue->set('k', $float)));
            self::assertSame($float, (float) $c->execute(['GET', 'k']));
            $c->rPush('l', $float);
            self::assertSame(1, $c->lRem('l', 0, $float), 'the same words each time');
            $json = self::connect(['serializer' => 'json']);
            $json->set('j', $float);
            self::assertSame($float, $json->get('j'));
        }
        self::assertNull($c->blPop('l', 0.01));
        self::assertNull($c->execute(['BLPOP', 'l', 0.01]));
    }

    public function testFloatIncrements(): void
    {
        $c = $this->client;
        self::assertSame(1.25, $c->incrByFloat('n', 1.25));
        self::assertSame(1.0, $c->incrByFloat('n', '-0.25'));
        self::assertSame(0.5, $c->hIncrByFloat('h', 'f', 0.5));
        self::assertSame(['f' => '0.5'], $c->hGetAll('h'));
        self::assertSame(2.5, $c->zIncrBy('z', 2.5, 'm'));
        self::assertSame(2.75, $c->zAdd('z', ['incr'], 0.25, 'm'));
        self::assertSame(1, $c->incr('whole'));
    }

    public function testScores(): void
    {
        $c = $this->client;
        foreach (self::FLOATS as $at => $float) {
            self::assertSame(1, $c->zAdd('z', [$at => $float]));
            self::assertSame($float, $c->zScore('z', $at));
            self::assertSame([(string) $at], $c->zRangeByScore('z', $float, $float));
        }
        self::assertSame([1.5, null], $c->zmScore('z', [0, 'none']));
        self::assertSame([0 => 1.5], $c->zRange('z', '(1.25', 1.75, ['byscore', 'withscores' => true]));
        self::assertSame(1, $c->zCount('z', 1.25, '1.75'));
        self::assertSame(count(self::FLOATS), $c->zUnionStore('y', ['z'], ['weights' => [0.5]]));
        self::assertSame(0.75, $c->zScore('y', 0));
        self::assertSame(['y', ['6' => -617283.9375]], $c->zmPop(['y'], 'MIN'));
        self::assertSame(1, $c->zAdd('ends', ['m' => INF]));
        self::assertSame(INF, $c->zScore('ends', 'm'));
    }

    public function testGeoCoordinates(): void
    {
        $c = $this->client;
        self::assertSame(2, $c->geoAdd('g', 13.361389, 38.115556, 'Palermo', 15.087269, 37.502669, 'Catania'));
        self::assertEqualsWithDelta(166.2742, $c->geoDist('g', 'Palermo', 'Catania', 'km'), 0.001);
        [[$east, $north]] = $c->geoPos('g', 'Palermo');
        self::assertEqualsWithDelta([13.361389, 38.115556], [$east, $north], 0.00001);
        [[$name, $distance]] = $c->geoSearch('g',
            ['fromlonlat' => [13.4, 38.1], 'byradius' => [100.5, 'km'], 'withdist' => true]);
        self::assertSame('Palermo', $name);
        self::assertEqualsWithDelta(3.8, $distance, 0.1);
    }

    public function testScripts(): void
    {
        $c = $this->client;
        self::assertSame('1.75', $c->eval('return tostring(tonumber(ARGV[1]) + 0.25)', 0, 1.5));
        self::assertSame('[1.5]', $c->eval('return cjson.encode(cjson.decode("[1.5]"))', 0));
        $c->register('half', new Script('return redis.call("INCRBYFLOAT", KEYS[1], ARGV[1] / 2)', keys: 1));
        self::assertSame('0.75', $c->half('n', 1.5));
        self::assertSame('IX', $c->eval('return string.upper(ARGV[1])', 0, 'ix'));
    }

    /** Tests command names in both cases. In Turkish, the uppercase form of i is not I. */
    public function testWordsInBothCases(): void
    {
        $c = $this->client;
        self::assertSame('OK', $c->execute(['set', 'k', '1', 'nx']));
        self::assertSame(2, $c->execute(['incrby', 'k', '1']));
        self::assertSame(3, $c->INCRBY('k', 1));
        self::assertSame(2, $c->zAdd('z', ['a' => 1, 'b' => 2]));
        self::assertSame(['b'], $c->zRangeByScore('z', '-inf', '+inf', ['limit' => [1, 1]]));
        self::assertTrue($c->xGroup('create', 's', 'g', '$', 'mkstream'));
        self::assertSame('1-0', $c->xAdd('s', '1-0', ['f' => 'v'], ['minid' => '0-1']));
        self::assertSame([1, 1], $c->pipeline(static fn ($pipe) => $pipe->STRLEN('k')->command(['unlink', 'k'])));
    }
}
