-- acquire grants a free name to a token, and says who stands in the way if it
-- is not free. For the token that holds the name already it is granted again.
-- KEYS[1] the lock, KEYS[2] its companion, KEYS[3] the token's tombstone
-- ARGV[1] token, ARGV[2] TTL in ms, ARGV[3] companion's TTL in ms, ARGV[4] purpose
-- returns {'withdrawn'}, {'granted', fence}, or
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

-- The companion must outlive the moment of its fence: where the clock was set
-- back the fence is ahead of it, and a forgotten one would come again.
local now = time[1] * 1000000 + time[2]
local function keep(fence)
  return string.format('%d', ARGV[3] + math.max(0, fence - now) / 1000)
end

-- A grant is not given on what is left of an earlier one, nor shortened to it.
if holder and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if holder and companion[1] == holder then
  redis.call('PEXPIRE', KEYS[2], keep(companion[2]))
  return {'granted', companion[2]}
end

local fence = string.format('%d', math.max((tonumber(companion[2]) or 0) + 1, now))
-- SET comes before every other write: when memory is full it is refused, and
-- with it the whole script. What follows can be refused only by a missing
-- permission; the name must then not stay locked.
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
end
local wrote = redis.pcall('HSET', KEYS[2], 'token', ARGV[1], 'fence', fence,
  'since', string.format('%d', now), 'purpose', ARGV[4])
if type(wrote) ~= 'table' then
  wrote = redis.pcall('PEXPIRE', KEYS[2], keep(fence))
end
if type(wrote) == 'table' then
  if not holder then
    redis.call('DEL', KEYS[1])
  end
  return wrote
end
return {'granted', fence}
