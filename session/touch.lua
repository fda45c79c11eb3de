-- Starts the idle time of a session again.
--
-- KEYS[1] the session
-- Result  {'ok', now, version, created, seen, idle, deadline},
--         {'absent'}, {'expired'} or {'corrupt'}
--
-- Atomic. Neither data nor version change, and it never creates the key.

local r, state = read()
if state == 'expired' then
  redis.call('DEL', KEYS[1])
end
if not r then
  return {state}
end

r.s = now
write(r, 's', int(now))
return answer(r)
