-- Reads messages of the outbox. Writes nothing. After record.lua and
-- outbox.lua.
--
-- ARGV  1 the number before the first
--       2 the most bytes
-- Reply {'ok', and for each message its number, batch and data} or {why}:
--       'unknown', 'expired' with in, 'regressed', 'corrupt'
local s, why = live()
if not s then
  return why
elseif not whole(s) then
  return {'regressed'}
end
local seq, left = larger(ARGV[1], s.ack), tonumber(ARGV[2])
local reply, count, bytes = {'ok'}, 0, 0
while less(seq, s.out) do
  -- As many as should fit, by the mean of those before.
  local some = count == 0 and 1 or math.floor(math.max(1, math.min(64, (left - bytes) * count / math.max(bytes, 1))))
  for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '0-' .. plus(seq, 1), '+', 'COUNT', some)) do
    local message = {}
    for i = 1, #entry[2], 2 do
      message[entry[2][i]] = entry[2][i + 1]
    end
    count, bytes = count + 1, bytes + #message.d
    if count > 1 and bytes > left then
      return reply
    end
    seq = string.sub(entry[1], 3)
    reply[#reply + 1] = seq
    reply[#reply + 1] = message.b
    reply[#reply + 1] = message.d
  end
end
return reply
