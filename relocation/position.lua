-- Runs a script for one message of a session, once.
--
-- KEYS  1 the position: a string, the generation and the number of the message
--         that had its effect last
--       2 and on: the keys of the script
-- ARGV  1 generation, 2 number, 3 the number before
--       4 TTL of the position in ms, or 0 to keep it
--       5 and on: the arguments of the script
-- Reply {'ok', what the script returned}; {'refused', generation, number} with
--       what is there, or '0' and '0'; {'corrupt'}. In the last two nothing
--       happens.
--
-- Run again it is refused, for the number is there. script is a function that
-- is defined before this, KEYS and ARGV being its own. When it fails, the
-- position stays; what it had written by then stays too, so it should fail
-- before that.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local generation, seq = '0', '0'
local position = redis.call('GET', KEYS[1])
if position then
  generation, seq = string.match(position, '^([1-9]%d*) ([1-9]%d*)$')
  if not seq then
    return {'corrupt'}
  end
end
if less(ARGV[1], generation) or seq ~= ARGV[3] then
  return {'refused', generation, seq}
end
local set = {'SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2]}
if ARGV[4] ~= '0' then
  set[4], set[5] = 'PX', ARGV[4]
end
if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(set)) then
  redis.call(unpack(set)) -- which says so, before anything has happened
end
local keys, args = {}, {}
for i = 2, #KEYS do
  keys[i - 1] = KEYS[i]
end
for i = 5, #ARGV do
  args[i - 4] = ARGV[i]
end
local result = script(keys, args)
if type(result) == 'table' and result.err then
  return result
end
redis.call(unpack(set))
return {'ok', result}
