-- acquire grants a free name to a token, and says who stands in the way if it
-- is not free. For the token that holds the name already it is granted again.
-- KEYS[1] the lock, KEYS[2] its companion
-- ARGV[1] to ARGV[4] as grant has them
-- returns the last fence reserved or '0', {'withdrawn'}, or
-- returns {'held', token, its PTTL, {companion's token, fence, purpose}, TIME}

local known = look()
if known[5] then
  return {'withdrawn'}
end
local time = redis.call('TIME')
return grant(known, time) or {'held', redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), known, time}
