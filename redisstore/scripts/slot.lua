-- slot reads what is known of one slot of a job and writes nothing.
-- KEYS[1] the job's lock, KEYS[2] the slot's record
-- ARGV none
-- returns {{open, lost, token, fence, attempt, began, ended, code, note},
-- returns  what is left of the runner's lease in ms or 0, TIME}

local run = redis.call('HMGET', KEYS[2], 'open', 'lost', 'token', 'fence', 'attempt', 'began', 'ended', 'code', 'note')
local left = 0
if run[1] and run[3] and redis.call('GET', KEYS[1]) == run[3] then
  left = redis.call('PTTL', KEYS[1])
end
return {run, left, redis.call('TIME')}
