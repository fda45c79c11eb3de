-- Renews an owner's lease. After record.lua.
--
-- ARGV  1 generation, 2 owner, 3 its lease (ms)
-- Reply {'ok', out} or {why}: 'unknown', 'expired' with in, 'fenced',
--       'regressed', 'corrupt'
--
-- Its first write is one that Redis does not refuse when it is out of memory.
local s, why = owned(ARGV[1], ARGV[2])
if not s then
  return why
end
extend(s, ARGV[3])
keep(s)
redis.call('HSET', KEYS[1], 'l', int(s.l), 'x', int(s.x))
return {'ok', s.out}
