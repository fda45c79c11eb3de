-- Makes a claim the owner of a session, under the next generation. After
-- record.lua and outbox.lua.
--
-- ARGV  1 owner, 2 its lease (ms), 3 nonce, 4 principal
--       5 serial, 6 attempt, 7 received, 8 acked: what the client said
--       9 1 to take it from an owner whose lease has not ended
--       10 what stands before an owner's name in the name of its channel
--       11 the session as its users know it
-- Reply {'ok', generation, in, out, ack, mark, 1 if nobody owned it},
--       {'owned', owner, ms left}, or {why}: 'unknown', 'expired' with in, 'taken', 'superseded',
--       'regressed', 'corrupt'
--
-- Run again with the same nonce by the same owner it answers 'ok' and changes
-- nothing.
local s, why = find()
if not s then
  return why
elseif s.p ~= ARGV[4] then
  return {'unknown'}
elseif s.ended then
  return {'expired', s['in']}
elseif s.n == ARGV[3] and s.o == ARGV[1] then
  return snapshot(s)
elseif less(ARGV[5], s.c) then
  return {'taken'}
elseif not less(s.a, ARGV[6]) then
  return {'superseded'}
elseif less(ARGV[7], s.ack) then
  return {'taken'}
elseif less(s['in'], ARGV[8]) or less(s.out, ARGV[7]) or less(s.g, ARGV[5]) or not whole(s) then
  return {'regressed'}
elseif s.o ~= '' and s.o ~= ARGV[1] and now < s.l and ARGV[9] ~= '1' then
  tell(ARGV[10], s.o, 'y', ARGV[1], s.g .. ' ' .. ARGV[11])
  return {'owned', s.o, s.l - now}
end

s.g, s.m, s.w = plus(s.g, 1), ARGV[3], s.o == '' and '1' or '0'
extend(s, ARGV[2])
keep(s)
redis.call('HSET', KEYS[1], 'g', s.g, 'o', ARGV[1], 'l', int(s.l), 'x', int(s.x),
  'n', ARGV[3], 'a', ARGV[6], 'm', s.m, 'f', '0', 'w', s.w)
return snapshot(s)
