-- Grants a permit of a semaphore, or puts its token in line. After fence.lua,
-- line.lua and permits.lua.
--
-- KEYS  1 the permits held
--       2 the fence last given: a string of digits
--       3 the line: a sorted set of tokens, each followed by the number of
--         permits that it knows of, by the time they came in µs
-- ARGV  1 the token
--       2 what its holder says of itself
--       3 its TTL in ms
--       4 the number of permits
--       5 TTL of the fence in ms
--       6 TTL of the line in ms, or 0 so as not to stand in it
--       7 the greatest length of the line
-- Reply the fence, a string of digits, when the token is granted a permit; else
--       ms until enough permits expire, and what the holder of that one says.
--
-- Run twice it gives a second, greater fence; the first is then nobody's.
if not may_expire(KEYS[1], ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- which is refused, before anything is there
end
local time, member = clock(), ARGV[1] .. ARGV[2]
sweep(KEYS[1], time)
local handed = redis.call('ZSCORE', KEYS[1], ARGV[1] .. passing)
local mine = handed or redis.call('ZSCORE', KEYS[1], member)
local held = redis.call('ZCARD', KEYS[1])
if mine or held < tonumber(ARGV[4]) then
  local fence = mint(KEYS[2], ARGV[5], now())
  if handed then
    redis.call('ZREM', KEYS[1], ARGV[1] .. passing)
  end
  hold(KEYS[1], member, time, ARGV[3])
  if ARGV[6] ~= '0' then
    redis.pcall('ZREM', KEYS[3], ARGV[1] .. ARGV[4])
  end
  return fence
end

if ARGV[6] ~= '0' then
  stand(KEYS[3], ARGV[1] .. ARGV[4], ARGV[6], ARGV[7], now)
end
local rank = held - tonumber(ARGV[4])
local last = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')
return {last[2] - time, string.sub(last[1], #ARGV[1] + 1)}
