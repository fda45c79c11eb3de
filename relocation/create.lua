-- Creates a session that has an owner. After record.lua.
--
-- ARGV  1 owner, 2 its lease (ms), 3 nonce, 4 principal
--       5 terms: resume, tombstone (ms), messages, bytes
--       6 in, 7 out
-- Reply {'ok', generation, in, out, ack, mark, '1'}, {'exists'} or {'corrupt'}
--
-- Run again with the same nonce by the same owner it answers 'ok' and changes
-- nothing.
local s, why = find()
if s then
  if s.ended or s.n ~= ARGV[3] or s.g ~= '1' or s.o ~= ARGV[1] then
    return {'exists'}
  end
  return snapshot(s)
elseif why[1] ~= 'unknown' then
  return why
end

if not may_expire(KEYS[1]) then
  redis.call('PEXPIRE', KEYS[1], '1') -- which says so
end
local resume, tombstone = string.match(ARGV[5], '^(%d+) (%d+)')
s = {
  g = '1', ['in'] = ARGV[6], out = ARGV[7], ack = ARGV[7], m = ARGV[3], w = '1',
  resume = tonumber(resume), tombstone = tonumber(tombstone),
}
extend(s, ARGV[2])
redis.call('HSET', KEYS[1], 'g', s.g, 'o', ARGV[1], 'l', int(s.l), 'x', int(s.x),
  'p', ARGV[4], 't', ARGV[5], 'n', ARGV[3], 'a', '0', 'c', '0',
  'in', s['in'], 'out', s.out, 'ack', s.ack, 'm', s.m, 'f', '0', 'w', s.w)
redis.call('DEL', KEYS[2])
keep(s)
return snapshot(s)
