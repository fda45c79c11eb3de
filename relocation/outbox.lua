-- The outbox, after record.lua.

local last = '9223372036854775807'

-- whole reports whether the outbox has every message that it should: a key can
-- be evicted, or lost apart from the other.
local function whole(s)
  return redis.call('XLEN', KEYS[2]) == minus(s.out, s.ack)
end

-- field returns a field of a message, or false if there is none of that number.
local function field(seq, name)
  local entry = redis.call('XRANGE', KEYS[2], '0-' .. seq, '0-' .. seq)[1]
  for i = 1, entry and #entry[2] or 0, 2 do
    if entry[2][i] == name then
      return entry[2][i + 1]
    end
  end
  return false
end

-- acknowledge notes that messages up to acked are to go. Requires that there
-- is such a message.
local function acknowledge(s, acked)
  if acked == s.out then
    s.ba = s.bo
  elseif acked ~= s.ack then
    s.ba = tonumber(field(acked, 's'))
  end
  s.ack = acked
end

-- room returns why ARGV from that index on does not fit, or nothing.
local function room(s, from)
  local held, count, bytes = minus(s.out, s.ack), #ARGV - from + 1, s.bo - s.ba
  if count == 0 then
    return nil
  elseif less(last, plus(s.out, count)) then
    return {'exhausted'}
  elseif held == 0 and count == 1 then
    return nil
  end
  for i = from, #ARGV do
    bytes = bytes + #ARGV[i]
  end
  if held + count > s.messages or bytes > s.bytes then
    return {'full'}
  end
end

-- append adds ARGV from that index on, and returns the number of the first.
local function append(s, from, batch)
  if from > #ARGV then
    return '0'
  end
  local first = plus(s.out, 1)
  if not may_expire(KEYS[2]) then
    redis.call('PEXPIRE', KEYS[2], '1') -- which says so
  end
  for i = from, #ARGV do
    s.out, s.bo = plus(s.out, 1), s.bo + #ARGV[i]
    redis.call('XADD', KEYS[2], '0-' .. s.out, 'b', batch, 's', int(s.bo), 'd', ARGV[i])
  end
  return first
end

-- trim drops what is acknowledged.
local function trim(s)
  if s.ack == s.out then
    redis.call('DEL', KEYS[2])
  else
    redis.call('XTRIM', KEYS[2], 'MINID', '0-' .. plus(s.ack, 1))
  end
end
