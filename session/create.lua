-- Creates a session, or with mode 'replace' puts one in place of any other.
--
-- KEYS[1] the session
-- ARGV    data, version, idle time (ms), absolute time (ms), mode
-- Result  {'ok', now, version, created, seen, idle, deadline}, {'exists'} or {'corrupt'}
--
-- Atomic. Run again with the same version it answers 'ok' and changes nothing.

local data, version, idle, absolute, mode = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local r, state = read()
if state == 'ok' then
  if r.v == version then
    return answer(r)
  elseif mode ~= 'replace' then
    return {'exists'}
  end
elseif state == 'corrupt' then
  return {state}
end

r = {v = version, c = now, s = now, i = idle, a = now + absolute}
write(r, 'v', version, 'd', data, 'c', int(r.c), 's', int(r.s), 'i', int(r.i), 'a', int(r.a))
return answer(r)
