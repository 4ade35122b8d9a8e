-- grant stands before other scripts. It makes the token the holder of a name
-- that is free, or that it holds already, and gives it a fencing token unless
-- it has one.
-- KEYS[1] the lock, KEYS[2] its companion
-- ARGV[1] token, ARGV[2] TTL in ms, ARGV[3] companion's TTL in ms, ARGV[4] purpose
-- ARGV[5] how many fencing tokens to reserve beyond the first, or '' for no fencing token at all
-- returns {'granted', the last fence reserved or '0'}, or an error

local function grant(holder, companion, time)
  -- The companion must outlive the moment of its fence: where the clock was set
  -- back the fence is ahead of it, and a forgotten one would come again.
  local now = time[1] * 1000000 + time[2]
  local function keep(fence)
    return string.format('%d', ARGV[3] + math.max(0, fence - now) / 1000)
  end

  -- A grant is not given on what is left of an earlier one, nor shortened to it.
  if holder and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  if holder and companion[1] == holder then
    redis.call('PEXPIRE', KEYS[2], keep(companion[2]))
    return {'granted', companion[2]}
  end

  -- SET comes before every other write: when memory is full it is refused, and
  -- with it the whole script. What follows can be refused only by a missing
  -- permission; the name must then not stay locked.
  if not holder then
    redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
  end
  if ARGV[5] == '' then
    return {'granted', '0'}
  end
  local fence = string.format('%d', math.max((tonumber(companion[2]) or 0) + 1, now) + ARGV[5])
  local wrote = redis.pcall('HSET', KEYS[2], 'token', ARGV[1], 'fence', fence,
    'since', string.format('%d', now), 'purpose', ARGV[4])
  if type(wrote) ~= 'table' then
    wrote = redis.pcall('PEXPIRE', KEYS[2], keep(fence))
  end
  if type(wrote) == 'table' then
    if not holder then
      redis.call('DEL', KEYS[1])
    end
    return wrote
  end
  return {'granted', fence}
end
