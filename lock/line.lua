-- The line of tokens that wait, a sorted set by the time they came in µs. This
-- stands before every script that has to do with it; it is none by itself.
--
-- A line that is something else is left alone: it costs the waiters their
-- order, and they poll.

-- What follows a token to which something was handed over, until it takes it up.
local passing = ' next'

-- Without leave to give a key a TTL there is to be no key, or it would stay
-- for ever.
local function may_expire(key, ttl)
  return not redis.acl_check_cmd or redis.acl_check_cmd('PEXPIRE', key, ttl)
end

local function stand(line, member, ttl, most, now)
  local length = redis.pcall('ZCARD', line)
  if type(length) == 'number' then
    if length < tonumber(most) and may_expire(line, ttl) then
      redis.call('ZADD', line, 'NX', now(), member)
    end
    redis.call('PEXPIRE', line, ttl)
  end
end

-- Wakes the owner of a token, with a message on its channel: the key as its
-- users know it. Reports whether it may have heard, and whether it may be told
-- at all. PUBLISH counts all who hear on a single server, where counted is 1;
-- there an owner whom nobody hears for is gone.
local function wake(channels, ownerlen, token, message, counted)
  local heard = redis.pcall('PUBLISH', channels .. string.sub(token, 1, tonumber(ownerlen)), message)
  if type(heard) == 'table' then
    return false, false
  end
  return heard > 0 or counted ~= '1', true
end
