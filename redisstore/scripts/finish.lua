-- finish makes a slot done if it is the run of this token and fence and the
-- same grant holds the job; done again, it changes nothing.
-- KEYS[1] the job's lock, KEYS[2] the slot's record, KEYS[3] the job's index, KEYS[4] the lock's companion
-- ARGV[1] token, ARGV[2] fence, ARGV[3] exit code, ARGV[4] note, ARGV[5] TTL of a record that is done, in ms
-- returns 'mine', 'gone' or 'taken'

local run = redis.call('HMGET', KEYS[2], 'open', 'lost', 'token', 'fence')
local mine = run[3] == ARGV[1] and run[4] == ARGV[2]
if mine and not run[1] and not run[2] then
  return 'mine'
end
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 'gone'
end
local grant = redis.call('HMGET', KEYS[4], 'token', 'fence')
if holder ~= ARGV[1] or grant[1] ~= ARGV[1] or grant[2] ~= ARGV[2] then
  return 'taken'
end
if not run[3] then
  return 'gone'
end
if not mine or not run[1] then
  return 'taken'
end

-- HDEL comes first: it is not refused when memory is full, and after a write
-- that was not, neither is HSET.
redis.call('HDEL', KEYS[2], 'open')
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], 'ended', string.format('%d', time[1] * 1000000 + time[2]), 'code', ARGV[3], 'note', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[5]) then
  redis.call('PEXPIRE', KEYS[3], ARGV[5])
end
return 'mine'
