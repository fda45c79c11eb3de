-- Mints the fence of a lock that was just obtained, or puts its token in line.
-- After fence.lua and line.lua.
--
-- KEYS  1 the lock: a string, the token of its holder and what it says of
--         itself (redislock's format)
--       2 the fence last given: a string of digits
--       3 the line: a sorted set of tokens by the time they came, in µs
-- ARGV  1 the token
--       2 TTL of the fence in ms
--       3 TTL of the line in ms, or 0 so as not to stand in it
--       4 the greatest length of the line
-- Reply the fence, a string of digits, when the token holds the lock; else ms
--       until the lock expires, -1 if it never does, -2 if it is free, and
--       what follows the token of its holder.
--
-- Run twice it gives a second, greater fence; the first is then nobody's.
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  if ARGV[3] ~= '0' then
    redis.pcall('ZREM', KEYS[3], ARGV[1]) -- it may have come before its turn
  end
  return mint(KEYS[2], ARGV[2], now())
end

local left = redis.call('PTTL', KEYS[1])
if ARGV[3] ~= '0' then
  stand(KEYS[3], ARGV[1], ARGV[3], ARGV[4], now)
end
return {left, string.sub(value or '', #ARGV[1] + 1)}
