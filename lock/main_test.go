package lock_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests wait for TTLs most of the time, so more of them fit than there are
	// processors. A number that was asked for stands.
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
