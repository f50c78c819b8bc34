-- Deletes a key that holds a value: how a lock is given back.
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
