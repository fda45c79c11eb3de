package location

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ParseEndpoint reads host:port, as in "10.0.0.7:80" and "[::1]:80", or a URL
// without a path, as in "https://user.example". Of a URL with the scheme http
// or https the port may be missing. Space around it does not matter.
//
// Errors wrap [github.com/go-transparency/transparency.ErrInvalid]. They do not
// hold the text; user information in it is one of them.
func ParseEndpoint(text string) (Endpoint, error) {
	text = strings.TrimSpace(text)
	var e Endpoint
	hostport := text
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		u, err := url.Parse(text)
		switch {
		case strings.Contains(rest, "@"):
			return Endpoint{}, invalid("the endpoint's URL has user information, which is no part of a location")
		case err != nil:
			return Endpoint{}, invalid("the endpoint is not a URL")
		case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(rest, "#"):
			return Endpoint{}, invalid("the endpoint's URL has more than scheme, host and port")
		}
		e.Scheme, hostport = scheme, u.Host
		if u.Port() == "" && !strings.HasSuffix(u.Host, ":") {
			switch u.Scheme {
			case "http":
				hostport += ":80"
			case "https":
				hostport += ":443"
			}
		}
	} else if strings.Contains(text, "@") {
		return Endpoint{}, invalid("the endpoint has user information, which is no part of a location")
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return Endpoint{}, invalid("the endpoint is not host:port, with an IPv6 host in brackets")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '+' {
		return Endpoint{}, invalid("the endpoint's port is not a number from 1 to 65535")
	}
	e.Host, e.Port = host, uint16(n)
	return e.checked()
}

// ParseEndpoints reads a list of endpoints with commas between them, each as
// [ParseEndpoint] reads it. Empty items do not count, nor do those that name
// an endpoint again. An error says which item is at fault.
func ParseEndpoints(list string) ([]Endpoint, error) {
	var all []Endpoint
	for i, item := range strings.Split(list, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		e, err := ParseEndpoint(item)
		if err != nil {
			return nil, &itemError{i + 1, err}
		}
		all = append(all, e)
	}
	all, err := arrange(all)
	if err != nil {
		return nil, err
	}
	return all, nil
}

type itemError struct {
	item int
	err  error
}

func (e *itemError) Error() string { return "item " + strconv.Itoa(e.item) + ": " + e.err.Error() }
func (e *itemError) Unwrap() error { return e.err }
