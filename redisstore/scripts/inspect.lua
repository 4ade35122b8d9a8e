-- inspect reads all that is known of a name at one moment and writes nothing.
-- KEYS[1] the lock, KEYS[2] its companion
-- ARGV none
-- returns {token or nil, its PTTL, {companion's token, fence, purpose}, TIME}

return {
  redis.call('GET', KEYS[1]),
  redis.call('PTTL', KEYS[1]),
  redis.call('HMGET', KEYS[2], 'token', 'fence', 'purpose'),
  redis.call('TIME'),
}
