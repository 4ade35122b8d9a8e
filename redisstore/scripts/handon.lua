-- handon stands before other scripts. It hands a name that is free, or given
-- up, on to the first waiter before self whose inbox somebody listens to; the
-- others before it have gone.
-- KEYS none of its own
-- ARGV none of its own
-- returns 'handed', 'free' if nobody waits, or, one in 64 times if a foreign
-- returns  token was met in the last 1024, 'open': the name is to come free for
-- returns  lockers that can't queue, and the first waiter has kept its place

-- opens says whether the name is to come free. It counts the releases of a name
-- that others lock, too.
local function opens(companion)
  local foreign = tonumber(redis.call('HMGET', companion, 'foreign')[1] or 0)
  if foreign > 0 then
    redis.call('HSET', companion, 'foreign', foreign - 1)
  end
  return foreign % 64 == 1
end

-- A waiter is the channel of its inbox and its token, with a line's end between.
local function handOn(lock, companion, queue, claim, self)
  -- ZPOPMIN comes first: after it SET is not refused when memory is full.
  local first = redis.pcall('ZPOPMIN', queue)
  while first[1] and first[1] ~= self do
    local cut = string.find(first[1], '\n', 1, true)
    local channel, token = string.sub(first[1], 1, cut - 1), string.sub(first[1], cut + 1)
    -- In a cluster a waiter has a channel in the slot of the name.
    local say = string.sub(channel, 1, #queue) == queue and 'SPUBLISH' or 'PUBLISH'
    local heard = redis.pcall(say, channel, lock .. '\n' .. token)
    if type(heard) == 'number' and heard > 0 then
      if opens(companion) then
        redis.call('ZADD', queue, first[2], first[1])
        return 'open'
      end
      return redis.pcall('SET', lock, token, 'PX', claim).err and 'free' or 'handed'
    end
    first = redis.pcall('ZPOPMIN', queue)
  end
  return 'free'
end
