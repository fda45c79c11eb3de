-- Accepts a fence, or refuses it, and then runs a script that stands behind it.
--
-- KEYS  1 the mark: the greatest fence accepted, a string of digits
--       2 and on: the keys of the script
-- ARGV  1 the fence, a string of digits without leading zeros
--       2 TTL of the mark in ms, or 0 to keep it
--       3 and on: the arguments of the script
-- Reply {1, what the script returned}; {0, the mark} when the fence is
--       refused; {-1} when the mark is no fence. In the last two nothing
--       happens.
--
-- Run twice with one fence it accepts twice; what the script does then is the
-- script's affair. Fences are compared as text, the longer being the greater,
-- for above 2^53 a number would be another. The mark is written first: should
-- the script fail, a fence is remembered that was the newest all the same.
-- script is a function that is defined before this, KEYS and ARGV being its
-- own.
local fence = ARGV[1]
local mark = redis.call('GET', KEYS[1])
if mark then
  if not string.find(mark, '^[1-9]%d*$') then
    return {-1}
  end
  if #mark > #fence or (#mark == #fence and mark > fence) then
    return {0, mark}
  end
end
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], fence)
else
  redis.call('SET', KEYS[1], fence, 'PX', ARGV[2])
end
local keys, args = {}, {}
for i = 2, #KEYS do
  keys[i - 1] = KEYS[i]
end
for i = 3, #ARGV do
  args[i - 2] = ARGV[i]
end
return {1, script(keys, args)}
