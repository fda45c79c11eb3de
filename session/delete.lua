-- Removes a session, damaged or not.
--
-- KEYS[1] the session
-- Result  {'ok'}
--
-- Atomic. A key of another type raises WRONGTYPE and stays.

redis.call('HLEN', KEYS[1])
redis.call('DEL', KEYS[1])
return {'ok'}
