-- Runs a number of commands one after another.
for _ = 1, tonumber(ARGV[1]) do
    redis.call('incr', KEYS[1])
end
return redis.call('get', KEYS[1])
