-- Reads a session. Writes nothing.
--
-- KEYS[1] the session
-- Result  {'ok', now, version, created, seen, idle, deadline, data},
--         {'absent'}, {'expired'} or {'corrupt'}

local r, state = read()
if not r then
  return {state}
end
return answer(r, r.d)
