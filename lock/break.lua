-- Takes a lock from whatever token holds it, and hands it to the next in line.
-- After fence.lua, line.lua and handover.lua.
--
-- KEYS  1 the lock: a string that begins with the token of its holder
--       2 the fence last given: a string of digits
--       3 the line: a sorted set of tokens by the time they came
-- ARGV  1 TTL of the fence in ms
--       2-6 as in release.lua
-- Reply a fence, a string of digits, greater than the holder's.
--
-- Run twice it may break the hold of the next in line too: it is sent once.
local held = redis.call('GET', KEYS[1]) -- and not of another type
local fence = mint(KEYS[2], ARGV[1], now())
if held then
  hand_over(KEYS[1], KEYS[3], '', ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
end
return fence
