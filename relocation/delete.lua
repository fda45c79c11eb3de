-- Ends a session, and remembers that. After record.lua.
--
-- ARGV  1 generation
-- Reply {'ok'} or {why}: 'unknown', 'fenced', 'regressed', 'corrupt'
--
-- Run again it changes nothing.
local s, why = find()
if s then
  why = fenced(s, ARGV[1])
end
if why then
  return why
end
if not s.ended then
  redis.call('DEL', KEYS[2])
  redis.call('HDEL', KEYS[1], 'o', 'l', 'n', 'a', 'c', 'out', 'ack', 'm', 'f', 'bo', 'ba', 'r', 'h', 'w')
  s.x = now
  redis.call('HSET', KEYS[1], 'e', '1', 'x', int(s.x))
  keep(s)
end
return {'ok'}
