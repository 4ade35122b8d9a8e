-- raise makes the last fencing token of a grant at least the one given, if the
-- token holds the name; it never lowers one.
-- KEYS[1] the lock, KEYS[2] its companion
-- ARGV[1] token, ARGV[2] the last fencing token
-- returns 'mine', 'gone' or 'taken'

local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return holder and 'taken' or 'gone'
end
local known = redis.call('HMGET', KEYS[2], 'token', 'fence')
if known[1] == ARGV[1] and tonumber(known[2]) >= tonumber(ARGV[2]) then
  return 'mine'
end
local fence = ARGV[2]
if (tonumber(known[2]) or 0) > tonumber(fence) then
  fence = known[2]
end
redis.call('HSET', KEYS[2], 'token', ARGV[1], 'fence', fence)
-- The fence may be ahead of this server's clock: the companion must outlive that
-- moment by a day or two TTLs, as grant has it.
local time = redis.call('TIME')
local ahead = fence / 1000 - (time[1] * 1000 + time[2] / 1000)
local needed = ahead + math.max(86400000, 2 * redis.call('PTTL', KEYS[1]))
if redis.call('PTTL', KEYS[2]) < needed then
  redis.call('PEXPIRE', KEYS[2], string.format('%d', needed))
end
return 'mine'
