-- Extends a permit that the token holds. It never creates one. After
-- permits.lua.
--
-- KEYS  1 the permits held
-- ARGV  1 the token and what its holder says of itself
--       2 its TTL in ms
-- Reply 1 if the token holds a permit, which now lasts for the TTL; else 0.
--
-- Run twice it extends twice, to the same effect.
local time = clock()
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= time then
  return 0
end
hold(KEYS[1], ARGV[1], time, ARGV[2])
return 1
