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
--
-- Each key gets its time to live before it is written, in case that is not
-- allowed, and after it, in case there was none before. The lease comes last:
-- a user who may not run one of the commands leaves nothing that is listed.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- keep makes a key last for at least ttl ms.
local function keep(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end

local id, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[5])
local known, gone = tonumber(ARGV[6]), tonumber(ARGV[7])
local score = tonumber(redis.call('ZSCORE', KEYS[1], id) or 0)
local held = redis.call('HGET', KEYS[2], id)
held = score > now and held
local holder = held and string.match(held, '^(%S*) ')

if tonumber(redis.call('ZSCORE', KEYS[4], token) or 0) > now then
  return 2
end
if held and holder ~= token and ARGV[8] ~= '1' then
  return 2
end
local meta = redis.call('HMGET', KEYS[3], 'epoch', 'emptied')
local void = meta[1] and not meta[2] and redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf') == 0

-- This changes nothing. It is refused when memory is full, and the first write
-- of a script is the only one that can be.
redis.call('ZADD', KEYS[1], 'XX', 0, '')
keep(KEYS[1], 2 * ttl)
keep(KEYS[2], 2 * ttl)
keep(KEYS[3], known)
redis.call('HSETNX', KEYS[3], 'epoch', t[1] .. '.' .. t[2])
keep(KEYS[3], known)
redis.call('HDEL', KEYS[3], 'emptied')
if void then
  redis.call('HSET', KEYS[3], 'void', now)
end
if held and holder ~= token then
  keep(KEYS[4], gone)
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  redis.call('ZADD', KEYS[4], now + gone, holder or '')
  keep(KEYS[4], gone)
end
local ended = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
if #ended > 0 then
  redis.call('ZREM', KEYS[1], unpack(ended))
  redis.call('HDEL', KEYS[2], unpack(ended))
end
local value = token .. ' ' .. ARGV[9]
if held ~= value then
  redis.call('HINCRBY', KEYS[3], 'generation', 1)
end
redis.call('HSET', KEYS[2], id, value)
keep(KEYS[2], 2 * ttl)
redis.call('ZADD', KEYS[1], now + ttl, id)
keep(KEYS[1], 2 * ttl)
if held ~= value then
  redis.pcall('PUBLISH', ARGV[4], ARGV[3])
end
return 1
