-- Ends the lease of an instance, if it is the token's, and the token for good.
--
-- KEYS  1 live, 2 data, 3 meta, 4 gone: see register.lua
-- ARGV  1 the id
--       2 the token
--       3 the service, as the news have it
--       4 the channel of the news
--       5 how long a token is gone in ms
-- Reply 1.
--
-- Run twice it changes nothing more. A registration of the same token that
-- comes in later, because it was given up and went on its way, does nothing.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local id, token = ARGV[1], ARGV[2]

redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
redis.call('PEXPIRE', KEYS[4], ARGV[5]) -- lest it be allowed to write it and not this
redis.call('ZADD', KEYS[4], now + ARGV[5], token)
redis.call('PEXPIRE', KEYS[4], ARGV[5])

local held = redis.call('HGET', KEYS[2], id)
if not held or string.match(held, '^(%S*) ') ~= token then
  return 1
end
redis.call('ZREM', KEYS[1], id)
redis.call('HDEL', KEYS[2], id)
if redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf') == 0 and redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('HSET', KEYS[3], 'emptied', 1)
end
redis.pcall('PUBLISH', ARGV[4], ARGV[3])
return 1
