// Package redistest gives tests a Redis: a real redis-server where there is one, miniredis where
// there is none, and the test's log says which.
//
// [Start] is for tests that run on any backend. Its order: the server that REDIS_URL names, else a
// redis-server of the test's own from the PATH, else miniredis. Two variables change that:
//
//	TRANSPARENCY_REDIS=mini          miniredis, whatever there is
//	TRANSPARENCY_REQUIRE_REDIS=1     never miniredis for want of a server: fail instead (wins)
//
// [StartServer], [StartReplica], [StartSentinel] and [StartCluster] are for tests that need
// processes of their own, to pause, kill or count; they skip where there is no redis-server.
// [BubbleClient] is for tests in fake time, and [Example] for Example functions.
//
// Servers listen on the loopback interface, persist nothing, and die with the test process (on
// Linux, even when that is killed).
package redistest
