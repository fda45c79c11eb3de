-- Begins every script here: the clock, the numbers, and the session.
--
-- KEYS  1 the session, a hash of
--           g generation, o owner (absent when released), l end of its lease
--           x end of the session if nothing renews it, e '1' when it has ended
--           p principal, t terms: resume, tombstone (ms), messages, bytes
--           n nonce of the last claim, a its attempt, w '1' when nobody owned the
--           session then; c generation confirmed
--           in, out, ack the numbers; m last mark, f first message of its update
--           bo, ba bytes appended since the beginning, and of these acknowledged
--           r batches appended last, h when the last was that is not among them
--       2 the outbox, a stream: message n is 0-n, of b batch, s the bytes
--         appended up to it, d data
--
-- Times are milliseconds of the server's clock. Sequence numbers and
-- generations are text throughout, for a number of Lua is exact up to 2^53
-- only, and concatenated it loses more.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function int(n)
  return string.format('%.0f', n)
end

local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local function larger(a, b)
  return less(a, b) and b or a
end

-- plus returns a sequence number and a small number, added. The last 15 digits
-- are exact, and carry into those before them.
local function plus(a, n)
  local high, low = string.sub(a, 1, -16), tonumber(string.sub(a, -15)) + n
  if high == '' then
    return int(low)
  elseif low >= 1e15 then
    high, low = plus(high, 1), low - 1e15
  end
  return high .. string.format('%015.0f', low)
end

-- minus returns how far b is behind a, as a number. It is less than 10^15.
local function minus(a, b)
  local n = tonumber(string.sub(a, -15)) - tonumber(string.sub(b, -15))
  return n < 0 and n + 1e15 or n
end

-- find returns the session, or nothing and why. One that has ended is returned
-- with ended set.
local function find()
  local v = redis.call('HMGET', KEYS[1],
    'g', 'o', 'l', 'x', 'e', 'p', 't', 'n', 'a', 'c', 'in', 'out', 'ack', 'm', 'f', 'bo', 'ba', 'w')
  local s = {
    g = v[1], o = v[2] or '', l = tonumber(v[3] or 0), x = v[4] and tonumber(v[4]), p = v[6],
    n = v[8], a = v[9], c = v[10], ['in'] = v[11], out = v[12], ack = v[13], m = v[14], f = v[15],
    bo = tonumber(v[16] or 0), ba = tonumber(v[17] or 0), w = v[18],
  }
  if not s.g and redis.call('EXISTS', KEYS[1]) == 0 then
    return nil, {'unknown'}
  end
  local resume, tombstone, messages, bytes = string.match(v[7] or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if not (s.g and s.x and s.p and bytes and s['in']) then
    return nil, {'corrupt'}
  end
  s.resume, s.tombstone = tonumber(resume), tonumber(tombstone)
  s.messages, s.bytes = tonumber(messages), tonumber(bytes)
  s.ended = v[5] or now >= s.x
  return s
end

-- live returns a session that has not ended, or nothing and why.
local function live()
  local s, why = find()
  if s and s.ended then
    return nil, {'expired', s['in']}
  end
  return s, why
end

-- fenced says why generation is not the session's, or returns nothing. A later
-- one was given away before the store went back.
local function fenced(s, generation)
  if s.g ~= generation then
    return {less(s.g, generation) and 'regressed' or 'fenced'}
  end
end

-- owned returns a session that an owner may change, or nothing and why.
local function owned(generation, owner)
  local s, why = live()
  if not s then
    return nil, why
  end
  why = fenced(s, generation)
  if not why and s.o ~= owner then
    why = {'fenced'}
  end
  if why then
    return nil, why
  end
  return s
end

-- extend moves the end of the lease, and with it that of the session.
local function extend(s, lease)
  s.l = now + tonumber(lease)
  s.x = s.l + s.resume
end

-- keep gives both keys their time to live. A session stays for as long as its
-- end is to be remembered.
local function keep(s)
  redis.call('PEXPIRE', KEYS[1], int(s.x - now + s.tombstone))
  redis.call('PEXPIRE', KEYS[2], int(s.x - now + 1000))
end

-- may_expire reports whether a key may be given a time to live. Without that
-- there is to be no key, or it would stay for ever.
local function may_expire(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('PEXPIRE', key, '1')
end

local function snapshot(s)
  return {'ok', s.g, s['in'], s.out, s.ack, s.m, s.w}
end

-- tell sends an event to an instance: its kind, the length of the sender's
-- name, that name, and the session as its users know it. It is a hint, and may
-- fail.
local function tell(channels, to, kind, from, id)
  if to ~= '' then
    redis.pcall('PUBLISH', channels .. to, kind .. #from .. ':' .. from .. id)
  end
end
