-- Stores a document if its condition holds.
--
-- KEYS[1]  the document, a string
-- ARGV[1]  the new document
-- ARGV[2]  "always"; "absent": only when there is none; "version": only over
--          the one whose SHA-1 is ARGV[3]
-- ARGV[3]  SHA-1 in lower-case hexadecimal, for "version"
--
-- Returns 1 when stored, 0 when the condition does not hold. Compare and set
-- are one step, as every script is. A key of another type is an error and
-- stays as it is. The document has no TTL: it lasts until it is replaced or
-- removed. Not repeatable: a second run finds the first one's document.
local old = redis.call('GET', KEYS[1])
if ARGV[2] == 'absent' and old then
  return 0
end
if ARGV[2] == 'version' and (not old or redis.sha1hex(old) ~= ARGV[3]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
