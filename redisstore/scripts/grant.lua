-- grant stands before other scripts. It makes the token the holder of a name
-- that is free, or that it holds already, and gives it a fencing token unless
-- it has one.
-- KEYS[1] the lock, KEYS[2] its companion
-- ARGV[1] token, ARGV[2] TTL in ms
-- ARGV[3] how many fencing tokens to reserve beyond the first, or '' for no fencing token at all
-- ARGV[4] purpose or ''
-- returns the last fence reserved or '0', nil if another holds the name, or an error

-- look reads the companion: token, fence and purpose of the last grant, how long
-- the companion stays in µs since 1970, and whether the token has a tombstone.
local function look()
  return redis.call('HMGET', KEYS[2], 'token', 'fence', 'purpose', 'stays', 'x:' .. ARGV[1])
end

-- mine makes sure that a name which the token holds already lasts for the whole
-- TTL: a grant is not given on what is left of an earlier one, nor shortened to it.
local function mine()
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
end

-- number gives the token, which holds the name, its fencing token. The companion
-- must outlive the moment of that: where the clock was set back the fence is
-- ahead of it, and a forgotten one would come again. So that not every grant has
-- to set its time, it stays for six hours more.
local function number(known, time)
  local now = time[1] * 1000000 + time[2]
  local fence = (tonumber(known[2]) or 0) + 1
  if fence < now then
    fence = now
  end
  local needed = fence + math.max(86400000, 2 * ARGV[2]) * 1000
  local last = string.format('%d', fence + ARGV[3])
  local wrote = redis.pcall('HSET', KEYS[2], 'token', ARGV[1], 'fence', last)
  if type(wrote) ~= 'table' and ARGV[4] ~= (known[3] or '') then
    wrote = redis.pcall('HSET', KEYS[2], 'purpose', ARGV[4])
  end
  if type(wrote) ~= 'table' and (tonumber(known[4]) or 0) < needed then
    local stays = needed + 21600000000
    wrote = redis.pcall('PEXPIRE', KEYS[2], string.format('%d', (stays - now) / 1000))
    if type(wrote) ~= 'table' then
      wrote = redis.pcall('HSET', KEYS[2], 'stays', string.format('%d', stays))
    end
  end
  return type(wrote) == 'table' and wrote or last
end

-- Holds says that the token is known to hold the name.
local function grant(known, time, holds)
  local set = not holds and redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
  local fresh = set and set.ok
  if not holds and not fresh then
    -- SET is refused when memory is full, also where the name is not free.
    local holder = redis.call('GET', KEYS[1])
    if holder ~= ARGV[1] then
      return not holder and set or nil
    end
  end
  if not fresh then
    mine()
    if known[1] == ARGV[1] then
      return known[2]
    end
  end
  if ARGV[3] == '' then
    return '0'
  end
  local fence = number(known, time)
  -- After SET, what follows can be refused only by a missing permission; the name
  -- must then not stay locked.
  if type(fence) == 'table' and fresh then
    redis.call('DEL', KEYS[1])
  end
  return fence
end
