<?php

declare(strict_types=1);

namespace Undercroft\Tests\Commands;

use Undercroft\ArgumentException;
use Undercroft\ServerException;
use Undercroft\Tests\EngineCase;

/** Tests the methods of every command family. */
final class TypesTest extends EngineCase
{
    public function testStrings(): void
    {
        $c = $this->client;
        self::assertTrue($c->set('k', "a\r\nb\0c"));
        self::assertSame("a\r\nb\0c", $c->get('k'));
        self::assertNull($c->get('none'));
        self::assertFalse($c->set('k', 'x', ['nx']));
        self::assertTrue($c->set('k', 'x', ['xx', 'ex' => 100]));
        self::assertSame(100, $c->ttl('k'));
        self::assertTrue($c->set('k', 'y', 50));
        self::assertSame(50, $c->ttl('k'));
        self::assertTrue($c->set('k', 'z', 'EX', 20));
        self::assertSame('z', $c->set('k', 'w', ['get', 'keepttl']));
        self::assertSame(20, $c->ttl('k'));
        self::assertNull($c->set('fresh', 'w', ['get']));
        self::assertSame('w', $c->getEx('k', ['persist']));
        self::assertSame(-1, $c->ttl('k'));
        self::assertSame('w', $c->getDel('k'));
        self::assertSame(0, $c->exists('k'));
        self::assertSame(1, $c->incr('n'));
        self::assertSame(11, $c->incrBy('n', 10));
        self::assertSame(9, $c->decrBy('n', 2));
        self::assertSame(9.5, $c->incrByFloat('n', 0.5));
        self::assertTrue($c->mSet(['a' => '1', 'b' => 2]));
        self::assertSame(['1', '2', null], $c->mGet(['a', 'b', 'c']));
        self::assertSame(['1', '2', null], $c->mget('a', 'b', 'c'));
        self::assertFalse($c->mSetNx(['a' => '3', 'd' => '4']));
        self::assertSame(3, $c->append('a', 'bc'));
        self::assertSame('bc', $c->getRange('a', 1, -1));
        self::assertSame(5, $c->setRange('a', 3, 'de'));
        self::assertSame(5, $c->strLen('a'));
        self::assertTrue($c->setNx('e', 1));
        self::assertFalse($c->setNx('e', 1));
        self::assertTrue($c->setEx('e', 10, 'v'));
        self::assertTrue($c->pSetEx('e', 10_000, 'v'));
        self::assertSame('v', $c->getSet('e', 'u'));
        $c->mSet(['x1' => 'ohmytext', 'x2' => 'mynewtext']);
        self::assertSame('mytext', $c->lcs('x1', 'x2'));
        self::assertSame(6, $c->lcs('x1', 'x2', ['len']));
        self::assertSame(6, $c->lcs('x1', 'x2', ['IDX'])['len']);
    }

    public function testBitsAndHyperLogLogs(): void
    {
        $c = $this->client;
        self::assertSame(0, $c->setBit('b', 7, 1));
        self::assertSame(1, $c->getBit('b', 7));
        self::assertSame(1, $c->bitCount('b'));
        self::assertSame(1, $c->bitCount('b', 0, -1, 'BYTE'));
        self::assertSame(7, $c->bitPos('b', 1));
        self::assertSame([0, 5], $c->bitField('f', 'SET', 'u8', 0, 5, 'GET', 'u8', 0));
        self::assertSame(1, $c->bitOp('OR', 'o', 'b', 'f'));
        self::assertSame(1, $c->pfAdd('p', ['a', 'b', 'c']));
        self::assertSame(3, $c->pfCount('p'));
        self::assertTrue($c->pfMerge('q', ['p']));
        self::assertSame(3, $c->pfCount(['p', 'q']));
    }

    public function testLists(): void
    {
        $c = $this->client;
        self::assertSame(3, $c->rPush('l', 'a', 'b', 'c'));
        self::assertSame(4, $c->lPush('l', ['z']));
        self::assertSame(['z', 'a', 'b', 'c'], $c->lRange('l', 0, -1));
        self::assertSame([], $c->lRange('none', 0, -1));
        self::assertSame('z', $c->lPop('l'));
        self::assertSame(['c', 'b'], $c->rPop('l', 2));
        self::assertNull($c->lPop('none'));
        self::assertSame(0, $c->lPushX('none', 'x'));
        self::assertSame(2, $c->lInsert('l', 'AFTER', 'a', 'b'));
        self::assertSame('b', $c->lIndex('l', 1));
        self::assertTrue($c->lSet('l', 1, 'B'));
        self::assertSame(1, $c->lPos('l', 'B'));
        self::assertSame([1], $c->lPos('l', 'B', ['count' => 0]));
        self::assertSame('B', $c->rPopLPush('l', 'm'));
        self::assertSame('B', $c->lMove('m', 'l', 'LEFT', 'RIGHT'));
        self::assertSame(['l', ['a']], $c->lmPop(['none', 'l'], 'LEFT', ['count' => 1]));
        self::assertNull($c->lmPop('none', 'LEFT'));
        self::assertSame(1, $c->lLen('l'));
        self::assertSame(1, $c->lRem('l', 0, 'B'));
        $c->rPush('l', [1, 2, 3]);
        self::assertTrue($c->lTrim('l', 0, 1));
        self::assertSame(['l', '1'], $c->blPop(['none', 'l'], 1));
        self::assertSame(['l', '2'], $c->brPop('l', 1));
        self::assertNull($c->blPop('l', 0.01));
        self::assertNull($c->blMove('l', 'm', 'LEFT', 'LEFT', 0.01));
        self::assertNull($c->bRPopLPush('l', 'm', 0.01));
        self::assertNull($c->blmPop(0.01, ['l'], 'LEFT'));
    }

    public function testHashes(): void
    {
        $c = $this->client;
        self::assertSame(2, $c->hSet('h', ['a' => 1, 'b' => 'x']));
        self::assertSame(1, $c->hSet('h', 'a', 2, 'c', 3));
        self::assertSame(['a' => '2', 'b' => 'x', 'c' => '3'], $c->hGetAll('h'));
        self::assertSame([], $c->hGetAll('none'));
        self::assertSame('x', $c->hGet('h', 'b'));
        self::assertNull($c->hGet('h', 'none'));
        self::assertSame(['2', null], $c->hmGet('h', ['a', 'none']));
        self::assertTrue($c->hmSet('h', ['d' => 4]));
        self::assertTrue($c->hExists('h', 'd'));
        self::assertFalse($c->hSetNx('h', 'd', 5));
        self::assertSame(5, $c->hIncrBy('h', 'd', 1));
        self::assertSame(5.5, $c->hIncrByFloat('h', 'd', 0.5));
        self::assertSame(['a', 'b', 'c', 'd'], $c->hKeys('h'));
        self::assertSame(['2', 'x', '3', '5.5'], $c->hVals('h'));
        self::assertSame(4, $c->hLen('h'));
        self::assertSame(3, $c->hStrLen('h', 'd'));
        self::assertSame(1, $c->hDel('h', 'd', 'none'));
        $fields = $c->hRandField('h', 3, 'WITHVALUES');
        ksort($fields);
        self::assertSame(['a' => '2', 'b' => 'x', 'c' => '3'], $fields);
        self::assertContains($c->hRandField('h'), ['a', 'b', 'c']);
        // Numeric field names must not turn the array into a list.
        $c->hSet('n', ['0' => 'p', '1' => 'q']);
        self::assertSame([0 => 'p', 1 => 'q'], $c->hGetAll('n'));
        $this->expectException(ArgumentException::class);
        $c->hSet('h', 'a');
    }

    public function testSets(): void
    {
        $c = $this->client;
        self::assertSame(3, $c->sAdd('s', ['a', 'b', 'c']));
        self::assertSame(1, $c->sAdd('t', 'b'));
        self::assertEqualsCanonicalizing(['a', 'b', 'c'], $c->sMembers('s'));
        self::assertTrue($c->sIsMember('s', 'a'));
        self::assertSame([true, false], $c->sMIsMember('s', ['a', 'z']));
        self::assertSame(['b'], $c->sInter('s', 't'));
        self::assertSame(1, $c->sInterCard(['s', 't'], ['limit' => 5]));
        self::assertEqualsCanonicalizing(['a', 'c'], $c->sDiff(['s', 't']));
        self::assertSame(3, $c->sUnionStore('u', 's', 't'));
        self::assertSame(1, $c->sInterStore('u', ['s', 't']));
        self::assertSame(2, $c->sDiffStore('u', ['s', 't']));
        self::assertCount(3, $c->sUnion('s', 't'));
        self::assertTrue($c->sMove('s', 't', 'a'));
        self::assertSame(2, $c->sCard('s'));
        self::assertContains($c->sRandMember('s'), ['b', 'c']);
        self::assertCount(2, $c->sRandMember('s', 5));
        self::assertSame(1, $c->sRem('s', 'b', 'z'));
        self::assertSame('c', $c->sPop('s'));
        self::assertNull($c->sPop('s'));
        self::assertSame([], $c->sPop('s', 2));
    }

    public function testSortedSets(): void
    {
        $c = $this->client;
        self::assertSame(2, $c->zAdd('z', ['a' => 1, 'b' => 2.5]));
        self::assertSame(1, $c->zAdd('z', ['ch'], 3, 'b'));
        self::assertSame(1, $c->zAdd('z', 'NX', 4, 'c'));
        self::assertSame(5.0, $c->zAdd('z', ['incr'], 1, 'c'));
        self::assertSame(['a', 'b', 'c'], $c->zRange('z', 0, -1));
        self::assertSame(['a' => 1.0, 'b' => 3.0, 'c' => 5.0], $c->zRange('z', 0, -1, ['withscores' => true]));
        self::assertSame(['a' => 1.0], $c->zRange('z', 0, 0, true));
        self::assertSame(['c', 'b'], $c->zRange('z', '+inf', 2, ['byscore', 'rev', 'limit' => [0, 2]]));
        self::assertSame(['b' => 3.0], $c->zRangeByScore('z', '(1', 4, ['withscores' => true, 'limit' => [0, 9]]));
        self::assertSame(['c'], $c->zRevRange('z', 0, 0));
        self::assertSame(['c'], $c->zRevRangeByScore('z', INF, 4));
        self::assertSame(['a', 'b'], $c->zRangeByLex('z', '-', '[b'));
        self::assertSame(['b', 'a'], $c->zRevRangeByLex('z', '[b', '-'));
        self::assertSame(3.0, $c->zScore('z', 'b'));
        self::assertNull($c->zScore('z', 'none'));
        self::assertSame([1.0, null], $c->zmScore('z', ['a', 'none']));
        self::assertSame(4.5, $c->zIncrBy('z', 1.5, 'b'));
        self::assertSame(1, $c->zRank('z', 'b'));
        self::assertNull($c->zRevRank('z', 'none'));
        self::assertSame(2, $c->zCount('z', '-inf', '(5'));
        self::assertSame(3, $c->zLexCount('z', '-', '+'));
        self::assertSame(3, $c->zCard('z'));
        $c->zAdd('y', ['a' => 10, 'x' => INF]);
        self::assertSame(4, $c->zUnionStore('u', ['z', 'y'], ['weights' => [1, 2], 'aggregate' => 'max']));
        self::assertSame(20.0, $c->zScore('u', 'a'));
        self::assertSame(INF, $c->zScore('u', 'x'));
        self::assertSame(1, $c->zInterStore('u', ['z', 'y']));
        self::assertSame(2, $c->zDiffStore('u', ['z', 'y']));
        self::assertSame(['a' => 11.0], $c->zInter(['z', 'y'], ['withscores']));
        self::assertSame(1, $c->zInterCard(['z', 'y']));
        self::assertSame(['b', 'c'], $c->zDiff(['z', 'y']));
        self::assertCount(4, $c->zUnion(['z', 'y']));
        self::assertSame(2, $c->zRangeStore('r', 'z', 0, 1));
        self::assertSame(['a' => 1.0], $c->zPopMin('z'));
        self::assertSame(['c' => 5.0, 'b' => 4.5], $c->zPopMax('z', 5));
        self::assertSame(['y', ['a' => 10.0]], $c->zmPop(['none', 'y'], 'MIN'));
        self::assertSame(['y', 'x', INF], $c->bzPopMax('y', 1));
        self::assertNull($c->bzPopMin(['y'], 0.01));
        self::assertNull($c->bzmPop(0.01, 'y', 'MAX'));
        $c->zAdd('z', ['a' => 1, 'b' => 2, 'c' => 3, 'd' => 4]);
        self::assertSame(1, $c->zRem('z', ['a', 'none']));
        self::assertSame(1, $c->zRemRangeByRank('z', 0, 0));
        self::assertSame(1, $c->zRemRangeByScore('z', 3, 3));
        self::assertSame(1, $c->zRemRangeByLex('z', '[d', '[d'));
        $c->zAdd('one', ['m' => 2]);
        self::assertSame(['m' => 2.0], $c->zRandMember('one', 1, 'WITHSCORES'));
    }

    public function testGeoCommands(): void
    {
        $c = $this->client;
        self::assertSame(2, $c->geoAdd('g', 13.361389, 38.115556, 'Palermo', 15.087269, 37.502669, 'Catania'));
        self::assertEqualsWithDelta(166.2742, $c->geoDist('g', 'Palermo', 'Catania', 'km'), 0.001);
        self::assertSame(['sqc8b49rny0', null], $c->geoHash('g', ['Palermo', 'none']));
        [$palermo, $none] = $c->geoPos('g', ['Palermo', 'none']);
        self::assertEqualsWithDelta(13.361389, $palermo[0], 0.0001);
        self::assertNull($none);
        $found = $c->geoSearch('g', ['fromlonlat' => [15, 37], 'byradius' => [200, 'km'], 'asc' => true,
            'withdist' => true, 'withcoord' => true]);
        self::assertSame('Catania', $found[0][0]);
        self::assertEqualsWithDelta(56.4413, $found[0][1], 0.001);
        self::assertEqualsWithDelta(15.087269, $found[0][2][0], 0.0001);
        self::assertSame(['Palermo'], $c->geoRadiusByMember('g', 'Palermo', 10, 'km'));
        self::assertSame(['Catania'], $c->geoRadiusRo('g', 15, 37, 100, 'km'));
        self::assertSame(1, $c->geoRadius('g', 15, 37, 100, 'km', ['store' => 'near']));
        self::assertSame(2, $c->geoSearchStore('all', 'g', ['frommember' => 'Palermo', 'byradius' => [500, 'km']]));
    }

    public function testKeys(): void
    {
        $c = $this->client;
        $c->mSet(['a' => 1, 'b' => 2]);
        self::assertSame(1, $c->exists('a'));
        self::assertSame(2, $c->exists(['a', 'b', 'c']));
        self::assertTrue($c->expire('a', 100));
        self::assertFalse($c->expire('a', 50, ['gt']));
        self::assertFalse($c->expire('none', 50));
        self::assertTrue($c->persist('a'));
        self::assertTrue($c->pExpire('a', 100_000));
        self::assertGreaterThan(90_000, $c->pTtl('a'));
        self::assertTrue($c->expireAt('a', time() + 100));
        self::assertGreaterThan(time(), $c->expireTime('a'));
        self::assertTrue($c->pExpireAt('a', (time() + 100) * 1000));
        self::assertGreaterThan(time() * 1000, $c->pExpireTime('a'));
        self::assertEqualsCanonicalizing(['a', 'b'], $c->keys('*'));
        self::assertTrue($c->rename('a', 'c'));
        self::assertFalse($c->renameNx('b', 'c'));
        self::assertTrue($c->copy('b', 'd'));
        self::assertFalse($c->copy('b', 'd'));
        self::assertTrue($c->copy('b', 'd', ['replace']));
        self::assertSame('string', $c->type('b'));
        self::assertSame('none', $c->type('none'));
        $dump = $c->dump('b');
        self::assertTrue($c->restore('e', 0, $dump, ['replace']));
        self::assertSame('2', $c->get('e'));
        self::assertSame('int', $c->object('encoding', 'e'));
        self::assertGreaterThan(0, $c->memory('usage', 'e'));
        self::assertSame(2, $c->touch('b', 'c'));
        self::assertSame(1, $c->unlink('e'));
        self::assertSame(2, $c->del(['b', 'c', 'none']));
        self::assertSame('d', $c->randomKey());
        $c->rPush('l', 3, 1, 2);
        self::assertSame(['3', '2', '1'], $c->sort('l', ['desc' => true]));
        $c->mSet(['w3' => 'x', 'w1' => 'y', 'w2' => 'z']);
        self::assertSame(['y', '1', 'z', '2'], $c->sort('l', ['limit' => [0, 2], 'get' => 'w*'], 'GET', '#'));
        self::assertSame(3, $c->sort('l', ['store' => 'sorted']));
        self::assertSame(['1', '2', '3'], $c->sortRo('sorted'));
        self::assertTrue($c->move('d', 1));
    }

    /** Tests options in the forms that Predis and phpredis use. */
    public function testOptionsOfOtherClients(): void
    {
        $c = self::connect(['prefix' => 'p:']);
        $c->zAdd('z', ['a' => 1, 'b' => 2, 'c' => 3]);
        $c->zAdd('y', ['a' => 10]);
        foreach ([['offset' => 1, 'count' => 1], ['count' => 1, 'offset' => 1], [1, 1]] as $limit) {
            self::assertSame(['b'], $c->zRangeByScore('z', 0, 9, ['limit' => $limit]));
            self::assertSame(['b'], $c->zRevRangeByScore('z', 9, 0, ['LIMIT' => $limit]));
            self::assertSame(['b'], $c->zRange('z', 0, 9, ['byscore', 'limit' => $limit]));
        }
        foreach ([[[2, 1], 'max'], [['z' => 2, 'y' => 1], 'MAX'], [['weights' => ['z' => 2, 'y' => 1],
            'aggregate' => 'max']], ['WEIGHTS', 2, 1, 'AGGREGATE', 'MAX']] as $options) {
            self::assertSame(3, $c->zUnionStore('u', ['z', 'y'], ...$options));
            self::assertSame(['b' => 4.0, 'c' => 6.0, 'a' => 10.0], $c->zRange('u', 0, -1, true));
            self::assertSame(1, $c->zInterStore('u', ['z', 'y'], ...$options));
            self::assertSame(['a' => 10.0], $c->zRange('u', 0, -1, true));
        }
        self::assertSame(3, $c->zUnionStore('u', ['z', 'y'], null, 'min'));
        self::assertSame(1.0, $c->zScore('u', 'a'));
        self::assertSame(['a' => 12.0], $c->zInter(['z', 'y'], [2, 1], ['withscores' => true]));
        $c->rPush('l', 3, 1, 2);
        $c->mSet(['w1' => 'x', 'w2' => 'y', 'v1' => 'X', 'v2' => 'Y']);
        self::assertSame(['3', '2', '1'], $c->sort('l', ['sort' => 'desc']));
        self::assertSame(['3', '2'], $c->sort('l', ['sort' => 'DESC', 'limit' => [0, 2], 'alpha' => true]));
        self::assertSame(['1', '2', '3'], $c->sortRo('l', ['SORT' => 'asc']));
        self::assertSame(['x', 'X', 'y', 'Y'],
            $c->sort('l', ['limit' => ['offset' => 0, 'count' => 2], 'get' => ['w*', 'v*']]));
        $all = [['sort' => 'down'], ['sort' => 1], ['limit' => ['offset' => 1]], ['limit' => ['from' => 1, 'to' => 2]]];
        foreach ($all as $wrong) {
            try {
                $c->sort('l', $wrong);
                self::fail('expected an error of ' . json_encode($wrong));
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected', $error->getMessage());
            }
        }
    }

    public function testServer(): void
    {
        $c = $this->client;
        self::assertSame('PONG', $c->ping());
        self::assertSame('hi', $c->ping('hi'));
        self::assertSame('hi', $c->echo('hi'));
        self::assertSame('7.0', substr($c->info('server')['Server']['redis_version'], 0, 3));
        self::assertSame(0, $c->dbSize());
        self::assertTrue($c->flushDb());
        self::assertSame(['maxmemory-samples' => '5'], $c->config('get', 'maxmemory-samples'));
        self::assertTrue($c->config('set', 'maxmemory-samples', 5));
        self::assertCount(2, $c->time());
        self::assertSame(0, $c->publish('nobody', 'hears'));
        self::assertSame(['news' => 0], $c->pubSub('numsub', 'news'));
        self::assertGreaterThan(200, count($c->command()));
        self::assertSame('OK', $c->execute(['SET', 'k', 5]));
        self::assertSame('5', $c->rawCommand('GET', 'k'));
        self::assertSame('5', $c->__call('substr', ['k', 0, -1]));
    }

    public function testErrorsChangeNothing(): void
    {
        $c = $this->client;
        $c->set('k', 'text');
        try {
            $c->lPush('k', 'x');
            self::fail('expected an error');
        } catch (ServerException $error) {
            self::assertSame('WRONGTYPE', $error->kind());
        }
        foreach ([[], ['SUBSCRIBE', 'c'], ['MULTI'], ['GET', null], ['GET', true], ['SET', 'k', []], ['SET', 'k', NAN]]
            as $words) {
            try {
                $c->execute($words);
                self::fail('expected an error of ' . json_encode($words[0] ?? ''));
            } catch (ArgumentException $error) {
                self::assertStringContainsString('expected', $error->getMessage());
            }
        }
        try {
            $c->select(3);
            self::fail('expected an error: another connection would have another database');
        } catch (ArgumentException $error) {
            self::assertStringContainsString('the database is part of the URL', $error->getMessage());
        }
        self::assertSame('text', $c->get('k'));
    }

    /** Tests values of up to 1,000,000 bytes and collections of up to 100,000 items. */
    public function testSizes(): void
    {
        $c = $this->client;
        foreach ([0, 1, 10, 16_381, 16_384, 65_536, 1_000_000] as $size) {
            $value = substr(str_repeat("ab\r\n\$5\r\n", intdiv($size, 8) + 1), 0, $size);
            self::assertTrue($c->set("v$size", $value));
            self::assertTrue($value === $c->get("v$size"), "a value of $size bytes");
        }
        $items = array_map(strval(...), range(1, 100_000));
        foreach (array_chunk($items, 10_000) as $chunk) {
            $c->rPush('l', $chunk);
        }
        self::assertTrue($items === $c->lRange('l', 0, -1));
        $c->mSet(array_combine($items, $items));
        self::assertCount(100_008, $c->keys('*'));
        self::assertTrue($items === $c->mGet($items));
    }
}
