-- Extends a permit that the token holds. It never creates one. After
-- permits.lua.
--
-- KEYS  1 the permits held
-- ARGV  1 the token and what its holder says of itself
--       2 its TTL in ms
-- Reply 1 if the token holds a permit, which now lasts for the TTL; else 0.
--
-- Run twice it extends twice, to the same effect.
--
-- The sweep comes first also because what follows is then not refused when the
-- server is out of memory: a script that has written may go on.
local time = clock()
sweep(KEYS[1], time)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
hold(KEYS[1], ARGV[1], time, ARGV[2])
return 1
