-- Extends a lock that the token holds. It never creates one.
--
-- KEYS  1 the lock: a string that begins with the token of its holder
-- ARGV  1 the token
--       2 its TTL in ms
-- Reply 1 if the token holds the lock, which now lasts for the TTL; else 0.
--
-- Run twice it extends twice, to the same effect.
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
