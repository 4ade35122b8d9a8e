-- release frees the name if the token holds it and tells the waiters; with a
-- tombstone it also makes a late acquire of this token come to nothing.
-- KEYS[1] the lock, KEYS[2] the token's tombstone
-- ARGV[1] token, ARGV[2] the tombstone's TTL in ms or 0, ARGV[3] channel
-- returns 'mine', 'gone' or 'taken'

local holder = redis.call('GET', KEYS[1])
local answer = 'gone'
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.pcall('PUBLISH', ARGV[3], '')
  answer = 'mine'
elseif holder then
  answer = 'taken'
end

-- DEL comes first, and a refused tombstone does not undo it: a name must come
-- free also when memory is full.
if ARGV[2] ~= '0' then
  redis.pcall('SET', KEYS[2], '', 'PX', ARGV[2])
end
return answer
