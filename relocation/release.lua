-- Ends an ownership. After record.lua.
--
-- ARGV  1 generation
--       2 the instance to tell, or ''
--       3 what stands before its name in the name of its channel
--       4 the session as its users know it
-- Reply {'ok'} or {why}: 'unknown', 'expired' with in, 'fenced', 'regressed',
--       'corrupt'
--
-- Run again it tells again, and changes nothing.
local s, why = live()
if s then
  why = fenced(s, ARGV[1])
end
if why then
  return why
end
if s.o ~= '' then
  s.x = now + s.resume
  keep(s)
  redis.call('HDEL', KEYS[1], 'o', 'l')
  redis.call('HSET', KEYS[1], 'x', int(s.x))
end
tell(ARGV[3], ARGV[2], 'r', '', ARGV[4])
return {'ok'}
