-- Mints the fence of a lock that was just obtained, or puts its token in line.
--
-- KEYS  1 the lock: a string, the token of its holder (redislock's format)
--       2 the fence last given: a string of digits
--       3 the line: a sorted set of tokens by the time they came, in µs
-- ARGV  1 the token
--       2 TTL of the fence in ms
--       3 TTL of the line in ms, or 0 so as not to stand in it
--       4 the greatest length of the line
-- Reply the fence, a string of digits, when the token holds the lock; else ms
--       until the lock expires, -1 if it never does, -2 if it is free.
--
-- Run twice it gives a second, greater fence; the first is then nobody's. The
-- fence is the server's time in µs, so it rises also when the last one is
-- gone; where the clock has been set back it is the last one plus one. When
-- the last one expires, the clock that it was made from has passed it. Times
-- stay text: above 10^15 a number would come out as 1.7e+15, and above 2^53 as
-- another.
local function now()
  local t = redis.call('TIME')
  return t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
end

if redis.call('GET', KEYS[1]) == ARGV[1] then
  if ARGV[3] ~= '0' then
    redis.pcall('ZREM', KEYS[3], ARGV[1]) -- it may have come before its turn
  end
  local time = now()
  local last = redis.call('SET', KEYS[2], time, 'PX', ARGV[2], 'GET')
  if not last or #last < #time or (#last == #time and last < time) then
    return time
  end
  redis.call('SET', KEYS[2], last, 'PX', ARGV[2])
  redis.call('INCR', KEYS[2])
  return redis.call('GET', KEYS[2])
end

local left = redis.call('PTTL', KEYS[1])
if ARGV[3] ~= '0' then
  local length = redis.pcall('ZCARD', KEYS[3])
  if type(length) == 'number' then -- else it is something else, and left alone
    -- Without leave to give it a TTL the line would stay for ever.
    local may = not redis.acl_check_cmd or redis.acl_check_cmd('PEXPIRE', KEYS[3], ARGV[3])
    if length < tonumber(ARGV[4]) and may then
      redis.call('ZADD', KEYS[3], 'NX', now(), ARGV[1])
    end
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
  end
end
return left
