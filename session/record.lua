-- Begins every script here: the clock, and the session under KEYS[1].
--
-- A session is a hash of v (version), d (data), c (created), s (last seen),
-- i (idle time) and a (absolute deadline); times are milliseconds of the
-- server's clock, in decimal. Lua counts in doubles and prints only 14 digits
-- of one, so numbers leave through int.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function int(n)
  return string.format('%.0f', n)
end

local function number(s)
  return s and #s <= 15 and string.find(s, '^%d+$') and tonumber(s)
end

-- read returns the session and 'ok', or nil and 'absent', 'expired' or
-- 'corrupt'. A key of another type raises WRONGTYPE.
local function read()
  local f = redis.call('HMGET', KEYS[1], 'v', 'd', 'c', 's', 'i', 'a')
  local r = {v = f[1], d = f[2], c = number(f[3]), s = number(f[4]), i = number(f[5]), a = number(f[6])}
  if r.v and r.d and r.c and r.s and r.i and r.a then
    if now >= math.min(r.s + r.i, r.a) then
      return nil, 'expired'
    end
    return r, 'ok'
  end
  if redis.call('EXISTS', KEYS[1]) == 0 then
    return nil, 'absent'
  end
  return nil, 'corrupt'
end

-- write stores the fields that changed and starts the key's time to live
-- again. Requires that the session has not expired, so that some is left. A
-- user without PEXPIRE is refused before HSET, lest the key stay for ever.
local function write(r, ...)
  local ttl = int(math.min(r.i, r.a - now))
  if not redis.acl_check_cmd or redis.acl_check_cmd('PEXPIRE', KEYS[1], ttl) then
    redis.call('HSET', KEYS[1], ...)
  end
  redis.call('PEXPIRE', KEYS[1], ttl)
end

local function answer(r, data)
  return {'ok', int(now), r.v, int(r.c), int(r.s), int(r.i), int(r.a), data}
end
