-- enqueue acquires a name or takes a place in its queue, after it has released
-- the name for a previous token of the same caller.
-- KEYS[1] the lock, KEYS[2] its companion, KEYS[3] the token's tombstone, KEYS[4] the queue
-- ARGV[1] to ARGV[5] as grant has them, ARGV[6] inbox, ARGV[7] how long the queue is kept in ms
-- ARGV[8] the claim's TTL in ms, ARGV[9] previous token or ''
-- returns {'withdrawn'}, {'granted', the last fence reserved or '0', previous}, or
-- returns {'queued', token or nil, its PTTL, {companion's token, fence, since, purpose}, TIME, how many before, previous},
-- returns  where previous is 'mine', 'gone', 'taken' or ''

local lock, companion, queue = KEYS[1], KEYS[2], KEYS[4]
local waiter = ARGV[6] .. '\n' .. ARGV[1]
local holder = redis.call('GET', lock)
local previous = ''

if ARGV[9] ~= '' then
  redis.call('ZREM', queue, ARGV[6] .. '\n' .. ARGV[9])
  previous = holder and 'taken' or 'gone'
  if holder == ARGV[9] then
    redis.call('DEL', lock)
    holder, previous = false, 'mine'
  end
end

local withdrawn = redis.call('EXISTS', KEYS[3]) == 1
if withdrawn then
  redis.call('ZREM', queue, waiter)
end
-- Free, and others before: the last holder may have ended without a release.
local turn = not holder and handOn(lock, companion, queue, ARGV[8], waiter)
if withdrawn then
  return {'withdrawn'}
end

local known = redis.call('HMGET', companion, 'token', 'fence', 'since', 'purpose')
local time = redis.call('TIME')
if holder == ARGV[1] or turn == 'free' then
  -- ZREM also lets grant write when memory is full.
  redis.call('ZREM', queue, waiter)
  local granted = grant(holder, known, time)
  if not granted.err then
    granted[3] = previous
  end
  return granted
end

local before = redis.call('ZRANK', queue, waiter)
if not before then
  redis.call('ZADD', queue, string.format('%d', time[1] * 1000000 + time[2]), waiter)
  before = redis.call('ZRANK', queue, waiter)
end
if redis.call('PTTL', queue) < tonumber(ARGV[7]) then
  redis.call('PEXPIRE', queue, ARGV[7])
end
-- A token of holdfast is 32 hexadecimal digits, '@' and the owner.
if holder and #(string.match(holder, '^%x+@') or '') ~= 33 then
  redis.pcall('HSET', companion, 'foreign', '1024')
  if redis.call('PTTL', companion) < tonumber(ARGV[3]) then
    redis.pcall('PEXPIRE', companion, ARGV[3])
  end
end
return {'queued', redis.call('GET', lock), redis.call('PTTL', lock), known, time, before, previous}
