-- Handing a lock over. This stands, after line.lua, before every script that
-- ends a hold; it is none by itself.
--
-- The lock goes to the token that has stood in line longest, which has a short
-- grace in ms to take it up; to nobody if there is none, or none may be told.
-- A waiter whose owner nobody hears is passed over, and so is the token that
-- gives the lock up.
local function hand_over(lock, line, own, grace, channels, ownerlen, message, counted)
  for _ = 1, 64 do
    local token = redis.pcall('ZPOPMIN', line)[1]
    if not token then
      break
    end
    local heard, told = wake(channels, ownerlen, token, message, counted)
    if not told then
      break
    end
    if heard and token ~= own then
      redis.call('SET', lock, token .. passing, 'PX', grace)
      return
    end
  end
  redis.call('DEL', lock)
end
