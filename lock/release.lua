-- Takes a lock from the token that holds it, and hands it to the next in line.
-- After line.lua and handover.lua.
--
-- KEYS  1 the lock: a string that begins with the token of its holder
--       2 the line: a sorted set of tokens by the time they came
-- ARGV  1 the token
--       2 the grace in ms
--       3 what stands before an owner's name in the name of its channel
--       4 the length of an owner's name, with which every token begins
--       5 the message: the key as its users know it
--       6 1 if PUBLISH counts all who hear, as it does on a single server
-- Reply 1 if the token held the lock; else 0, and it is out of the line.
--
-- Run twice it answers 0, and changes nothing more: a token is used for one
-- acquisition only.
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then
  redis.pcall('ZREM', KEYS[2], ARGV[1])
  return 0
end
hand_over(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
return 1
