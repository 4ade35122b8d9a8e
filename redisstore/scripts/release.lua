-- release hands the name on if the token holds it, frees it if nobody waits, and
-- gives up the token's place; with a tombstone it also makes a late request of
-- this token come to nothing.
-- KEYS[1] the lock, KEYS[2] its companion, KEYS[3] the token's tombstone, KEYS[4] the queue
-- ARGV[1] token, ARGV[2] the tombstone's TTL in ms or 0, ARGV[3] the claim's TTL in ms, ARGV[4] inbox or ''
-- returns 'mine', 'gone' or 'taken'

local holder = redis.call('GET', KEYS[1])
if ARGV[4] ~= '' then
  redis.pcall('ZREM', KEYS[4], ARGV[4] .. '\n' .. ARGV[1])
end
local answer = 'gone'
if holder == ARGV[1] then
  if handOn(KEYS[1], KEYS[2], KEYS[4], ARGV[3]) ~= 'handed' then
    redis.call('DEL', KEYS[1])
  end
  answer = 'mine'
elseif holder then
  answer = 'taken'
end

-- DEL comes first, and a refused tombstone does not undo it: a name must come
-- free also when memory is full.
if ARGV[2] ~= '0' then
  redis.pcall('SET', KEYS[3], '', 'PX', ARGV[2])
end
return answer
