-- The permits of a semaphore that are held: a sorted set of tokens, each
-- followed by what its holder says of itself, by the time they expire in ms.
-- This stands before every script that has to do with them; it is none by
-- itself.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Numbers go to Redis as text without an exponent.
local function text(n)
  return string.format('%.0f', n)
end

local function sweep(permits, time)
  redis.call('ZREMRANGEBYSCORE', permits, '-inf', text(time))
end

-- The permits as a whole last as long as the one that lasts longest.
local function hold(permits, member, time, ttl)
  redis.call('ZADD', permits, text(time + ttl), member)
  if redis.call('PTTL', permits) < tonumber(ttl) then
    redis.call('PEXPIRE', permits, ttl)
  end
end
