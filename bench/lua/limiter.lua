-- A sliding-window limiter: admits a request, given its time and name, if fewer than `most` requests were admitted in
-- the last `window` milliseconds.
local now, member, window, most = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('zremrangebyscore', KEYS[1], '-inf', now - window)
if redis.call('zcard', KEYS[1]) >= most then
    return 0
end
redis.call('zadd', KEYS[1], now, member)
redis.call('pexpire', KEYS[1], window)
return 1
