-- Extends the lease of an instance. It never makes one.
--
-- KEYS  1 live, 2 data, 3 meta, 4 gone: see register.lua
-- ARGV  1 the id
--       2 the token
--       3 the service, as the news have it
--       4 the channel of the news
--       5 TTL of the lease in ms
--       6 how long the service is known in ms
-- Reply 1 if the lease now lasts for the TTL; 0 if it has run out; 2 if the id
--       is another's, or the token is gone.
--
-- Run twice it extends twice, to the same effect. Heartbeats also clear away
-- the leases of others that have run out, and tokens that are forgotten. That
-- these come first is what lets a Redis whose memory is full, which refuses
-- ZADD to a script that has not deleted anything, renew leases.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local function keep(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end

local id, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
if tonumber(redis.call('ZSCORE', KEYS[4], token) or 0) > now then
  return 2
end
local held = tonumber(redis.call('ZSCORE', KEYS[1], id) or 0) > now and redis.call('HGET', KEYS[2], id)
if not held then
  return 0
end
if string.match(held, '^(%S*) ') ~= token then
  return 2
end
keep(KEYS[1], 2 * ttl)
keep(KEYS[2], 2 * ttl)
keep(KEYS[3], tonumber(ARGV[6]))
redis.call('ZADD', KEYS[1], now + ttl, id)

local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
if #ids > 0 then
  redis.call('ZREM', KEYS[1], unpack(ids))
  redis.call('HDEL', KEYS[2], unpack(ids))
  redis.pcall('PUBLISH', ARGV[4], ARGV[3])
end
return 1
