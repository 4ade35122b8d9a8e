-- acquire grants a free name to a token, and says who stands in the way if it
-- is not free. For the token that holds the name already it is granted again.
-- KEYS[1] the lock, KEYS[2] its companion, KEYS[3] the token's tombstone
-- ARGV[1] to ARGV[5] as grant has them
-- returns {'withdrawn'}, what grant returns, or
-- returns {'held', token, its PTTL, {companion's token, fence, since, purpose}, TIME}

if redis.call('EXISTS', KEYS[3]) == 1 then
  return {'withdrawn'}
end

local holder = redis.call('GET', KEYS[1])
local companion = redis.call('HMGET', KEYS[2], 'token', 'fence', 'since', 'purpose')
local time = redis.call('TIME')

if holder and holder ~= ARGV[1] then
  return {'held', holder, redis.call('PTTL', KEYS[1]), companion, time}
end
return grant(holder, companion, time)
