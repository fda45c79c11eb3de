-- Appends messages for the client, and tells the owner. After record.lua and
-- outbox.lua.
--
-- ARGV  1 batch, 2 how long ago it was tried first (ms), or 0
--       3 what stands before an owner's name in the name of its channel
--       4 the session as its users know it
--       5 and on: messages
-- Reply {'ok', the first message} or {why}: 'unknown', 'expired' with in,
--       'uncertain', 'regressed', 'full', 'exhausted', 'corrupt'
--
-- All or nothing. Run again with the same batch it answers the same, as long
-- as the batch is among the last; after that it is uncertain when one that was
-- tried so long ago may have been.
local s, why = live()
if not s then
  return why
end
local v = redis.call('HMGET', KEYS[1], 'r', 'h')
local recent, forgotten = v[1] or '', tonumber(v[2] or 0)

-- recent is a row of ';batch first time', the oldest first.
local name = string.gsub(ARGV[1], '[%%; ]', {['%'] = '%25', [';'] = '%3B', [' '] = '%20'})
local _, at = string.find(recent, ';' .. name .. ' ', 1, true)
local first
if at then
  first = string.match(recent, '^%d+', at + 1)
elseif ARGV[2] ~= '0' and forgotten >= now - tonumber(ARGV[2]) - 100 then -- should the clock be set
  return {'uncertain'}
elseif not whole(s) then
  return {'regressed'}
else
  why = room(s, 5)
  if why then
    return why
  end
  first = append(s, 5, ARGV[1])
  recent = recent .. ';' .. name .. ' ' .. first .. ' ' .. int(now)
  local second = string.find(recent, ';', 2, true)
  while #recent > 3000 and second do
    forgotten = tonumber(string.match(string.sub(recent, 1, second - 1), '%d+$'))
    recent = string.sub(recent, second)
    second = string.find(recent, ';', 2, true)
  end
  redis.call('HSET', KEYS[1], 'out', s.out, 'bo', int(s.bo), 'r', recent, 'h', int(forgotten))
  redis.call('PEXPIRE', KEYS[2], int(s.x - now + 1000))
end
tell(ARGV[3], s.o, 'a', '', s.out .. ' ' .. ARGV[4])
return {'ok', first}
