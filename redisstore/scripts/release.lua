-- release hands the name on if the token holds it, frees it if nobody waits, and
-- gives up the token's place; with a tombstone it also makes a late request of
-- this token come to nothing.
-- KEYS[1] the lock, KEYS[2] its companion, KEYS[3] the queue
-- ARGV[1] token, ARGV[2] the claim's TTL in ms
-- ARGV[3] inbox or '', ARGV[4] the tombstone's TTL in ms or '0'; both may be missing
-- returns 'mine', 'gone' or 'taken'

local holder = redis.call('GET', KEYS[1])
if (ARGV[3] or '') ~= '' then
  redis.pcall('ZREM', KEYS[3], ARGV[3] .. '\n' .. ARGV[1])
end
local answer = 'gone'
if holder == ARGV[1] then
  if handOn(KEYS[1], KEYS[2], KEYS[3], ARGV[2]) ~= 'handed' then
    redis.call('DEL', KEYS[1])
  end
  answer = 'mine'
elseif holder then
  answer = 'taken'
end

-- bury leaves the tombstone: a field of the companion, named by the token, with
-- the time in ms until when it is needed. Now and then those that are not are
-- removed.
local function bury()
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('HSET', KEYS[2], 'x:' .. ARGV[1], string.format('%d', now + ARGV[4]))
  if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
  end
  if redis.call('HLEN', KEYS[2]) % 64 == 0 then
    local fields = redis.call('HGETALL', KEYS[2])
    for i = 1, #fields, 2 do
      if string.sub(fields[i], 1, 2) == 'x:' and tonumber(fields[i + 1]) < now then
        redis.call('HDEL', KEYS[2], fields[i])
      end
    end
  end
end

-- DEL comes first, and a refused tombstone does not undo it: a name must come
-- free also when memory is full.
if (ARGV[4] or '0') ~= '0' then
  pcall(bury)
end
return answer
