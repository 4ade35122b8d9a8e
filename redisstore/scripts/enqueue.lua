-- enqueue acquires a name or takes a place in its queue, after it has released
-- the name for a previous token of the same caller.
-- KEYS[1] the lock, KEYS[2] its companion, KEYS[3] the queue
-- ARGV[1] to ARGV[4] as grant has them, ARGV[5] inbox, ARGV[6] how long the queue is kept in ms
-- ARGV[7] the claim's TTL in ms, ARGV[8] previous token or ''
-- returns {'withdrawn'}, {'granted', the last fence reserved or '0', previous}, or
-- returns {'queued', token or nil, its PTTL, {companion's token, fence, purpose}, TIME, how many before, previous},
-- returns  where previous is 'mine', 'gone', 'taken' or ''

local lock, companion, queue = KEYS[1], KEYS[2], KEYS[3]
local waiter = ARGV[5] .. '\n' .. ARGV[1]
local holder = redis.call('GET', lock)
local previous = ''

if ARGV[8] ~= '' then
  redis.call('ZREM', queue, ARGV[5] .. '\n' .. ARGV[8])
  previous = holder and 'taken' or 'gone'
  if holder == ARGV[8] then
    redis.call('DEL', lock)
    holder, previous = false, 'mine'
  end
end

local known = look()
local withdrawn = known[5]
if withdrawn then
  redis.call('ZREM', queue, waiter)
end
-- Free, and others before: the last holder may have ended without a release.
local turn = not holder and handOn(lock, companion, queue, ARGV[7], waiter)
-- One caller that follows itself must leave others a chance, too.
if turn == 'free' and previous == 'mine' and opens(companion) then
  turn = 'open'
end
if withdrawn then
  return {'withdrawn'}
end

local time = redis.call('TIME')
if holder == ARGV[1] or turn == 'free' then
  -- ZREM also lets grant write when memory is full.
  redis.call('ZREM', queue, waiter)
  local fence = grant(known, time, holder == ARGV[1])
  return type(fence) == 'table' and fence or {'granted', fence, previous}
end

local before = redis.call('ZRANK', queue, waiter)
if not before then
  redis.call('ZADD', queue, string.format('%d', time[1] * 1000000 + time[2]), waiter)
  before = redis.call('ZRANK', queue, waiter)
end
if redis.call('PTTL', queue) < tonumber(ARGV[6]) then
  redis.call('PEXPIRE', queue, ARGV[6])
end
-- A token of holdfast is 32 hexadecimal digits, '@' and the owner.
if holder and #(string.match(holder, '^%x+@') or '') ~= 33 then
  redis.pcall('HSET', companion, 'foreign', '1024')
  if redis.call('PTTL', companion) < 86400000 then
    redis.pcall('PEXPIRE', companion, 86400000)
  end
end
if turn == 'handed' then
  holder = redis.call('GET', lock)
end
return {'queued', holder, redis.call('PTTL', lock), known, time, before, previous}
