package access

// NewMemoryDriver lets a test reach documents around a repository's limits.
func NewMemoryDriver() WriteDriver { return &memory{docs: make(map[string][]byte)} }

var (
	CheckJSON  = checkJSON
	FieldPath  = fieldPath
	FileError  = fileError
	RetryAfter = retryAfter
)
