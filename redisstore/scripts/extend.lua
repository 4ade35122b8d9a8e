-- extend makes leases last at least their TTL from now, where the token still
-- holds the name. It never shortens one. What goes wrong with one lease does
-- not touch the others. PEXPIRE is not refused when memory is full, as SET is.
-- KEYS[2i-1] the lock, KEYS[2i] its companion
-- ARGV[3i-2] token, ARGV[3i-1] TTL in ms, ARGV[3i] companion's TTL in ms
-- returns one text for each lease: 'mine', 'gone', 'taken', or an error's text. If the server
-- returns has evicted keys, 'gone' is followed by how many and by its policy

-- It is looked up once a run, and left out where INFO is not allowed.
local gone
local function whyGone()
  if not gone then
    local stats, memory = redis.pcall('INFO', 'stats'), redis.pcall('INFO', 'memory')
    local evicted = type(stats) == 'string' and string.match(stats, 'evicted_keys:(%d+)') or '0'
    local policy = type(memory) == 'string' and string.match(memory, 'maxmemory_policy:(%S+)') or 'unknown'
    gone = 'gone'
    if evicted ~= '0' then
      gone = 'gone maxmemory-policy ' .. policy .. ', evicted_keys ' .. evicted
    end
  end
  return gone
end

local function extend(lock, companion, token, ttl, keep)
  local holder = redis.pcall('GET', lock)
  if type(holder) == 'table' then
    return holder.err
  end
  if not holder then
    return whyGone()
  end
  if holder ~= token then
    return 'taken'
  end
  if redis.call('PTTL', lock) < tonumber(ttl) then
    local done = redis.pcall('PEXPIRE', lock, ttl)
    if type(done) == 'table' then
      return done.err
    end
  end
  -- The companion must outlive the lease, however long it is held; one write
  -- in every half of its time is enough.
  if redis.call('PTTL', companion) < keep / 2 then
    redis.pcall('PEXPIRE', companion, keep)
  end
  return 'mine'
end

local answers = {}
for i = 1, #KEYS / 2 do
  answers[i] = extend(KEYS[2 * i - 1], KEYS[2 * i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
end
return answers
