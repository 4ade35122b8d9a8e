-- Checks a fence before the user's script, which is put behind this text, runs.
-- KEYS[1] the mark of the resource: a hash of fence and owner
-- KEYS[2…] the keys of the user's script
-- ARGV[1] the fence that is shown, in decimal
-- ARGV[2] its owner
-- ARGV[3] how long to keep the mark from now on, in ms; 0 is for ever
-- ARGV[4…] the arguments of the user's script
-- returns {0, result of the user's script}, or {1, newest fence, its owner}
do
  local shown, owner = ARGV[1], ARGV[2]
  local mark = redis.call('HMGET', KEYS[1], 'fence', 'owner')
  local newest = mark[1] or '0'
  -- Not by tonumber: numbers of Lua are exact up to 2^53 only.
  if #shown < #newest or #shown == #newest and shown < newest
      or shown == newest and owner ~= mark[2] then
    return {1, newest, mark[2]}
  end
  redis.call('HSET', KEYS[1], 'fence', shown, 'owner', owner)
  if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
end
local function script(KEYS, ARGV)
