-- Hands in what one instance says about a breaker, and returns what the fleet
-- thinks of it.
--
-- KEYS  1 the breaker: a hash
--           v       the version of this form, 1
--           gen     the generation: a string of digits
--           open    1 while open, else 0
--           until   the end of the open time, in ms of TIME
--           open_ms how long that is
--           again   how often it was opened again since it first opened
--           prober  the instance that was last allowed to probe, or empty
--           lease   until when, in ms of TIME
--           held_ms how long that is
--       2 the live instances: a sorted set by the end of their lives, in ms
--       3 the votes to open: a sorted set of instances likewise
-- ARGV  1 the instance       2 its TTL in ms          3 1 if it votes to open
--       4 the last generation that it knows, which 5 and 6 are about
--       5 the verdict on its probing: 1 close, 2 open again, 0 none
--       6 for how long it wants to probe, in ms, or 0
--       7 votes needed       8 share of the live instances that must vote
--       9 open time in ms   10 longest open time  11 ms to keep what is decided
--      12 the channel on which new generations are told
-- Reply nothing if the hash is not of this form; else the generation (a string
--       of digits), 1 if open, ms left of the open time, ms left to probe, 1 if
--       it is the instance that may, live instances, votes.
--
-- Run twice it changes nothing more but the time to live: a verdict counts for
-- one generation, and ends it. Generations are the server's time in µs, or one
-- more than the last one known, and are made and sent as text: a number above
-- 10^15 would come out as 1.7e+15. All keys expire. A time that is further away
-- than it was when it began is over: the clock was set back, or is that of
-- another server, and could be off by years.
local key = redis.call('HMGET', KEYS[1], 'v', 'gen', 'open', 'until', 'again', 'prober', 'lease', 'open_ms', 'held_ms')
if key[1] ~= '1' and (key[1] or key[2] or redis.call('EXISTS', KEYS[1]) == 1) then
  return {}
end
-- Without leave to give them a TTL the keys would stay for ever.
for _, k in ipairs(KEYS) do
  if redis.acl_check_cmd and not redis.acl_check_cmd('PEXPIRE', k, ARGV[2]) then
    redis.call('PEXPIRE', k, ARGV[2]) -- is refused, with the server's own error
  end
end
local t = redis.call('TIME')
local micros = tonumber(t[1]) * 1000000 + tonumber(t[2])
local now = math.floor(micros / 1000)
local gen, open = key[2] or '0', key[3] == '1'
local ends, again = tonumber(key[4] or 0), tonumber(key[5] or 0)
local prober, lease = key[6] or '', tonumber(key[7] or 0)
if ends - now > tonumber(key[8] or 0) then
  ends = now
end
if lease - now > tonumber(key[9] or 0) then
  lease = now
end

local function text(n)
  return string.format('%.0f', n)
end

local function begin(isOpen, length)
  gen = text(math.max(micros, tonumber(gen) + 1, tonumber(ARGV[4]) + 1))
  open, ends, prober, lease = isOpen, now + length, '', 0
  redis.call('HSET', KEYS[1], 'v', '1', 'gen', gen, 'open', isOpen and '1' or '0',
    'until', text(ends), 'open_ms', text(length), 'again', again, 'prober', '', 'lease', '0', 'held_ms', '0')
  redis.call('PEXPIRE', KEYS[1], text(length + ARGV[11]))
  redis.pcall('PUBLISH', ARGV[12], gen)
end

-- the verdict
if open and gen == ARGV[4] and prober == ARGV[1] then
  if ARGV[5] == '1' then
    begin(false, 0)
  elseif ARGV[5] == '2' then
    again = math.min(again + 1, 62)
    begin(true, math.min(ARGV[9] * 2 ^ again, ARGV[10] + 0))
  end
end

-- the living and their votes
redis.call('ZADD', KEYS[2], text(now + ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
local live = redis.call('ZCARD', KEYS[2])
if ARGV[3] == '1' then
  redis.call('ZADD', KEYS[3], text(now + ARGV[2]), ARGV[1])
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
else
  redis.call('ZREM', KEYS[3], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', text(now))
local votes = redis.call('ZCARD', KEYS[3])
if not open and votes > 0 and votes >= tonumber(ARGV[7]) and votes >= ARGV[8] * live - 1e-9 then
  again = 0
  begin(true, ARGV[9] + 0)
  redis.call('DEL', KEYS[3])
  votes = 0
end

-- the leave to probe
if open and gen == ARGV[4] and ARGV[6] ~= '0' and now >= ends
  and (prober == ARGV[1] or lease <= now) then
  prober, lease = ARGV[1], now + ARGV[6]
  redis.call('HSET', KEYS[1], 'prober', prober, 'lease', text(lease), 'held_ms', ARGV[6])
  redis.call('PEXPIRE', KEYS[1], text(ARGV[6] + ARGV[11]))
end

local left, probing, granted = 0, 0, 0
if open then
  left, probing = math.max(ends - now, 0), math.max(lease - now, 0)
  if probing > 0 and prober == ARGV[1] then
    granted = 1
  end
end
return { gen, open and 1 or 0, left, probing, granted, live, votes }
