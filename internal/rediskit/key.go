package rediskit

import "strings"

// escape keeps braces out of the parts of a key. Redis Cluster hashes what
// stands between the first '{' and the first '}' after it, or the whole key
// when that is empty, so a brace from outside could move one of an entity's
// keys to another slot.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// Key names the key of entity under prefix: prefix{entity}suffix. All keys of
// one entity hash to one slot, whatever prefix, entity and suffix hold, and
// two different entities never share a key. Braces and percent signs in prefix
// and entity are percent-encoded.
func Key(prefix, entity, suffix string) string {
	return escape.Replace(prefix) + "{" + escape.Replace(entity) + "}" + suffix
}
