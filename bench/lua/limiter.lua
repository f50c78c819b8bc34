-- Admits a request, whose time and name are given, where fewer than so many of the last so many milliseconds were
-- admitted.
local now, member, window, most = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('zremrangebyscore', KEYS[1], '-inf', now - window)
if redis.call('zcard', KEYS[1]) >= most then
    return 0
end
redis.call('zadd', KEYS[1], now, member)
redis.call('pexpire', KEYS[1], window)
return 1
