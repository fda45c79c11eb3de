-- Replaces the data of a session whose version is the expected one.
--
-- KEYS[1] the session
-- ARGV    data, expected version, next version
-- Result  {'ok', now, version, created, seen, idle, deadline},
--         {'conflict'}, {'absent'}, {'expired'} or {'corrupt'}
--
-- Atomic. Run again with the same next version it answers 'ok' and changes
-- nothing. It never creates the key.

local data, expected, version = ARGV[1], ARGV[2], ARGV[3]

local r, state = read()
if state == 'expired' then
  redis.call('DEL', KEYS[1])
end
if not r then
  return {state}
elseif r.v == version then
  return answer(r)
elseif r.v ~= expected then
  return {'conflict'}
end

r.v, r.s = version, now
write(r, 'v', version, 'd', data, 's', int(now))
return answer(r)
