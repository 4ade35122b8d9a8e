-- begin makes a slot running if the grant holds the job and the slot may run:
-- the rule of driver.BeginRequest.Judge. For the token that runs it already
-- nothing is changed.
-- KEYS[1] the job's lock, KEYS[2] the slot's record, KEYS[3] the job's index, KEYS[4] the lock's companion
-- ARGV[1] token, ARGV[2] fence, ARGV[3] most attempts or 0, ARGV[4] 1 to retry a failed run or 0
-- ARGV[5] last moment in µs since 1970 or 0, ARGV[6] slot, ARGV[7] record's TTL in ms, ARGV[8] size of the index
-- returns {'free'}, or {'begun', 'ended' or 'late', and what slot returns:
-- returns  {open, lost, token, fence, attempt, began, ended, code, note}, left, TIME}

-- A token that was granted the job again, by a request that came late, has
-- another fence than the run that it was.
local grant = redis.call('HMGET', KEYS[4], 'token', 'fence')
if redis.call('GET', KEYS[1]) ~= ARGV[1] or grant[1] ~= ARGV[1] or grant[2] ~= ARGV[2] then
  return {'free'}
end

local function read()
  return redis.call('HMGET', KEYS[2], 'open', 'lost', 'token', 'fence', 'attempt', 'began', 'ended', 'code', 'note')
end

local left = redis.call('PTTL', KEYS[1])
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000000 + time[2])
local run = read()
local running = run[1] and run[3]
local lost = run[2]
local done = run[3] and not run[1] and not run[2]
local attempt = tonumber(run[5]) or 0
local most = tonumber(ARGV[3])
local exhausted = most > 0 and attempt >= most

if running and run[3] == ARGV[1] then
  return {'begun', run, left, time}
end
if running and exhausted then
  -- HSET comes first: where memory is full the run stays as it was.
  redis.call('HSET', KEYS[2], 'lost', '1', 'ended', now)
  redis.call('HDEL', KEYS[2], 'open')
  return {'ended', read(), 0, time}
end
local failed = done and (tonumber(run[8]) or 0) ~= 0
if lost or (done and (not failed or ARGV[4] == '0' or exhausted or run[3] == ARGV[1])) then
  return {'ended', run, 0, time}
end
if ARGV[5] ~= '0' and tonumber(now) > tonumber(ARGV[5]) then
  return {'late', run, 0, time}
end

-- The index comes first: an entry without a record is not listed.
redis.call('ZADD', KEYS[3], now, ARGV[6])
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -1 - ARGV[8])
redis.call('PEXPIRE', KEYS[3], ARGV[7])
-- What an earlier attempt left of its end is not read while the slot is open.
redis.call('HSET', KEYS[2], 'open', '1', 'token', ARGV[1], 'fence', ARGV[2],
  'attempt', string.format('%d', attempt + 1), 'began', now)
redis.call('PEXPIRE', KEYS[2], ARGV[7])
return {'begun', read(), left, time}
