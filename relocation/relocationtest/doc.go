// Package relocationtest tests what is built on package relocation.
//
// [RunStore] and [RunStoreFakeTime] are the suite that every
// [relocation.Store] passes: one check for each sentence that the interface
// promises, in real time or in a testing/synctest bubble.
//
//	func TestMyStore(t *testing.T) {
//		relocationtest.RunStore(t, func(t *testing.T) func() relocation.Store {
//			db := mystore.Start(t) // empty
//			return func() relocation.Store { return mystore.New(db) }
//		})
//	}
//
// A [Checker] keeps the history of messages that a test has sent and handled,
// and tells what was lost, doubled, reordered or handled by an owner whose time
// was over. It is for tests of services too, with relocation.Network to do
// things wrong.
package relocationtest
