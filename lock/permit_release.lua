-- Takes a permit from the token that holds it, and hands what is free to the
-- first in line for whom it is. After line.lua and permits.lua.
--
-- KEYS  1 the permits held
--       2 the line: a sorted set of tokens, each followed by the number of
--         permits that it knows of, by the time they came
-- ARGV  1 the token
--       2-6 as in release.lua
--       7 what the token's holder says of itself
--       8 the number of permits that it knows of
-- Reply 1 if the token held a permit; else 0, and it is out of the line.
--
-- Run twice it answers 0, and changes nothing more. A waiter whose owner nobody
-- hears is gone and leaves the line.
local time = clock()
sweep(KEYS[1], time)
local had = redis.call('ZREM', KEYS[1], ARGV[1] .. passing, ARGV[1] .. ARGV[7])
redis.pcall('ZREM', KEYS[2], ARGV[1] .. ARGV[8])
if had == 0 then
  return 0
end
local waiting = redis.pcall('ZRANGE', KEYS[2], 0, 63)
if waiting.err then
  return 1
end
local held = redis.call('ZCARD', KEYS[1])
for _, member in ipairs(waiting) do
  local token = string.sub(member, 1, #ARGV[1])
  if held < (tonumber(string.sub(member, #ARGV[1] + 1)) or 0) then
    redis.call('ZREM', KEYS[2], member)
    local heard, told = wake(ARGV[3], ARGV[4], token, ARGV[5], ARGV[6])
    if not told then
      return 1
    end
    if heard then
      hold(KEYS[1], token .. passing, time, ARGV[2])
      held = held + 1
    end
  end
end
return 1
