-- The server's time and the fence made of it. This stands before every script
-- that mints a fence; it is none by itself.
--
-- The fence is the server's time in µs, so it rises also when the last one is
-- gone; where the clock has been set back it is the last one plus one. When
-- the last one expires, the clock that it was made from has passed it. Times
-- stay text: above 10^15 a number would come out as 1.7e+15, and above 2^53 as
-- another.
local function now()
  local t = redis.call('TIME')
  return t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
end

local function mint(key, ttl, time)
  local last = redis.call('SET', key, time, 'PX', ttl, 'GET')
  if not last or #last < #time or (#last == #time and last < time) then
    return time
  end
  redis.call('SET', key, last, 'PX', ttl)
  redis.call('INCR', key)
  return redis.call('GET', key)
end
