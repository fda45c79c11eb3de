package location

import "strings"

// maxService bounds the name of a service, as DNS does.
const maxService = 253

// CleanService returns the one spelling of a service's name: lower case, "-"
// for "_", and without a dot at the end, so that "User_Service." and
// "user-service" are one service. A name is made of labels with dots between
// them; a label is 1 to 63 letters, digits and hyphens of ASCII that begins
// and ends with a letter or a digit. An error wraps
// [github.com/go-transparency/transparency.ErrInvalid] and does not hold the
// name.
//
// Everything here that takes the name of a service cleans it first.
func CleanService(service string) (string, error) {
	if isClean(service) {
		return service, nil
	}
	name := strings.TrimSuffix(strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case r == '_':
			return '-'
		}
		return r
	}, service), ".")
	switch {
	case isClean(name):
		return name, nil
	case name == "":
		return "", invalid("the service's name is empty")
	case len(name) > maxService:
		return "", invalid("the service's name is longer than %d bytes", maxService)
	}
	return "", invalid("the service's name is not made of letters, digits, hyphens and dots, as in user-service")
}

// isClean reports whether name is a valid name in its one spelling.
func isClean(name string) bool {
	return len(name) <= maxService && areLabels(name)
}

func areLabels(name string) bool {
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '.' {
			if c := name[i]; !isAlnum(c) && c != '-' {
				return false
			}
			continue
		}
		if n := i - start; n == 0 || n > 63 || name[start] == '-' || name[i-1] == '-' {
			return false
		}
		start = i + 1
	}
	return true
}

func isAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
