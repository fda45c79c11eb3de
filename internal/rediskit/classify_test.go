package rediskit

import (
	"errors"
	"testing"

	"github.com/go-transparency/transparency"
)

// The server has other words for NOPERM when the command is one of a script.
func TestClassifyDeniedInScript(t *testing.T) {
	for _, text := range []string{
		"ERR The user executing the script can't run this command or subcommand script: 1b936e, on @user_script:1.",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 1b936e",
		"ERR ACL failure in script: User bob has no permissions to run the 'get' command script: 1b936e, on @user_script:1.",
	} {
		if err := Classify(Writes, reply(text)); !errors.Is(err, transparency.ErrDenied) {
			t.Errorf("Classify(%q) = %v, want ErrDenied", text, err)
		}
	}
}
