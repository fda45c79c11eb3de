-- Takes a lock from the token that holds it, and hands it to the token that
-- has stood in line longest, which has a short grace to take it up.
--
-- KEYS  1 the lock: a string, the token of its holder
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
-- acquisition only. A waiter whose owner nobody hears is gone and is passed
-- over. A line that is something else, or a channel that may not be published
-- to, leaves the lock free and the waiters to their polling.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  redis.pcall('ZREM', KEYS[2], ARGV[1])
  return 0
end
for _ = 1, 64 do
  local token = redis.pcall('ZPOPMIN', KEYS[2])[1]
  if not token then
    break
  end
  local heard = redis.pcall('PUBLISH', ARGV[3] .. string.sub(token, 1, tonumber(ARGV[4])), ARGV[5])
  if type(heard) == 'table' then
    break
  end
  if token ~= ARGV[1] and (heard > 0 or ARGV[6] ~= '1') then
    redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
    return 1
  end
end
redis.call('DEL', KEYS[1])
return 1
