-- Deletes a key if it holds a value, which releases a lock.
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
