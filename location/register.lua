-- Registers an instance, or renews what the same token registered.
--
-- KEYS  1 live: a sorted set of ids by the end of their leases, in ms
--       2 data: a hash of id to "token endpoint", the endpoint in JSON
--       3 meta: a hash; see list.lua
--       4 gone: a sorted set of tokens that ended, by when they are forgotten
-- ARGV  1 the id
--       2 the token
--       3 the service, as the news have it
--       4 the channel of the news
--       5 TTL of the lease in ms
--       6 how long the service is known in ms
--       7 how long a token is gone in ms
--       8 1 to take the id over from another token
--       9 the endpoint
-- Reply 1 if it is registered; 2 if the id is another's, or the token is gone.
--
-- Run twice it answers the same and changes nothing more: the token is that of
-- one registration. A second run that comes after the token was ended does
-- nothing.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- keep makes a key last for at least ttl ms.
local function keep(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end

local id, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[5])
local score = tonumber(redis.call('ZSCORE', KEYS[1], id) or 0)
local held = score > now and redis.call('HGET', KEYS[2], id)
local holder = held and string.match(held, '^(%S*) ')

if tonumber(redis.call('ZSCORE', KEYS[4], token) or 0) > now then
  return 2
end
if held and holder ~= token then
  if ARGV[8] ~= '1' then
    return 2
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  redis.call('ZADD', KEYS[4], now + ARGV[7], holder or '')
  keep(KEYS[4], tonumber(ARGV[7]))
end

local value = token .. ' ' .. ARGV[9]
local same = held == value
local ended = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
if #ended > 0 then
  redis.call('ZREM', KEYS[1], unpack(ended))
  redis.call('HDEL', KEYS[2], unpack(ended))
end
local meta = redis.call('HMGET', KEYS[3], 'epoch', 'emptied')
if meta[1] and not meta[2] and redis.call('ZCARD', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[3], 'void', now)
end
redis.call('ZADD', KEYS[1], now + ttl, id)
redis.call('HSET', KEYS[2], id, value)
redis.call('HSETNX', KEYS[3], 'epoch', t[1] .. '.' .. t[2])
redis.call('HDEL', KEYS[3], 'emptied')
keep(KEYS[1], 2 * ttl)
keep(KEYS[2], 2 * ttl)
keep(KEYS[3], tonumber(ARGV[6]))
if not same then
  redis.call('HINCRBY', KEYS[3], 'generation', 1)
  redis.pcall('PUBLISH', ARGV[4], ARGV[3])
end
return 1
