// Package testkit is what the tests and suites of several packages have in common: waiting for what
// is to happen, and no longer than a while, and running a check that is meant to fail.
//
// A limit here is what a broken program makes a test wait, not what a test asserts: it is generous,
// because the machine may be busy. What takes how long is asserted in fake time, where there is
// nothing else to do, or against bare timers that ran beside ([OnTime]).
package testkit
