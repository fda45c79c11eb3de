-- Lists the endpoints whose leases last. It changes nothing.
--
-- KEYS  1 live: a sorted set of ids by the end of their leases, in ms
--       2 data: a hash of id to "token endpoint", the endpoint in JSON
--       3 meta: a hash of
--           epoch       when the store began to know the service
--           generation  how often an instance came or changed
--           emptied     1 when the last one was deregistered
--           void        when one came after all leases had run out, in ms
-- ARGV  1 the version that the caller knows
-- Reply nothing, if the service is not known; else the version, the epoch, 1
--       if it is empty on purpose, ms since it was void (0 for an hour or more),
--       and, unless the version is the one known, the endpoints, without their
--       tokens.
--
-- Between two changes of the generation instances can only go, so that the same
-- number of them are the same.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local meta = redis.call('HMGET', KEYS[3], 'epoch', 'generation', 'emptied', 'void')
local after = '(' .. now
local count = redis.call('ZCOUNT', KEYS[1], after, '+inf')
if not meta[1] and count == 0 then
  return {}
end
local version = (meta[1] or '') .. '/' .. (meta[2] or '') .. '/' .. count
local void = 0
if meta[4] and tonumber(meta[4]) <= now and now - meta[4] < 3600000 then
  void = math.max(now - meta[4], 1)
end
local emptied = '0'
if meta[3] then
  emptied = '1'
end
local reply = {version, meta[1] or '', emptied, string.format('%d', void)}
if version == ARGV[1] then
  return reply
end
for from = 0, count - 1, 1000 do
  local ids = redis.call('ZRANGEBYSCORE', KEYS[1], after, '+inf', 'LIMIT', from, 1000)
  local values = redis.call('HMGET', KEYS[2], unpack(ids))
  for i = 1, #ids do
    local value = values[i] or ''
    reply[#reply + 1] = string.gsub(value, '^%S* ', '', 1)
  end
end
return reply
