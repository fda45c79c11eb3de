-- Applies an owner's update, and renews its lease. After record.lua and
-- outbox.lua.
--
-- ARGV  1 generation, 2 owner, 3 its lease (ms)
--       4 in, 5 acked, 6 1 when the token of this generation was shown
--       7 the message sent last, or 0, and 8 its batch
--       9 mark, 10 the mark before
--       11 and on: messages to append
-- Reply {'ok', out, the first of these messages} or {why}: 'unknown',
--       'expired' with in, 'fenced', 'regressed', 'full', 'exhausted',
--       'corrupt'
--
-- All or nothing. Run again with the same mark it answers the same and renews
-- the lease. What appends is a write that Redis refuses when it is out of
-- memory; what only acknowledges begins with one that it does not.
local s, why = owned(ARGV[1], ARGV[2])
if not s then
  return why
end
if s.m == ARGV[9] then
  extend(s, ARGV[3])
  keep(s)
  redis.call('HSET', KEYS[1], 'l', int(s.l), 'x', int(s.x))
  return {'ok', s.out, s.f}
end

local acked, sent = larger(ARGV[5], s.ack), ARGV[7]
if s.m ~= ARGV[10] or less(s.out, acked) or less(s.out, sent) or not whole(s) then
  return {'regressed'}
elseif less(s.ack, sent) and field(sent, 'b') ~= ARGV[8] then
  return {'regressed'}
end
local trimmed = acked ~= s.ack
acknowledge(s, acked)
why = room(s, 11)
if why then
  return why
end

s.f = append(s, 11, ARGV[9])
extend(s, ARGV[3])
keep(s)
if trimmed then
  trim(s)
end
local changed = {
  'l', int(s.l), 'x', int(s.x), 'm', ARGV[9], 'f', s.f, 'in', larger(ARGV[4], s['in']),
  'out', s.out, 'ack', s.ack, 'bo', int(s.bo), 'ba', int(s.ba),
}
if ARGV[6] == '1' then
  changed[#changed + 1] = 'c'
  changed[#changed + 1] = s.g
end
redis.call('HSET', KEYS[1], unpack(changed))
return {'ok', s.out, s.f}
