package location

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Endpoint is where one instance of a service is reached. It is a value;
// those that a [Snapshot] gives share nothing with it.
type Endpoint struct {
	// ID tells the instances of a service apart: up to 128 graphic characters
	// of ASCII. Empty means host:port, or a random one in a registration.
	ID string `json:"id"`

	// Scheme is that of the endpoint's URL, like "https". Empty means "http".
	Scheme string `json:"scheme"`

	// Host is an IP address, without brackets, or a name.
	Host string `json:"host"`

	// Port is not zero.
	Port uint16 `json:"port"`

	// Zone is where the instance runs, for those who prefer near ones: up to
	// 64 graphic characters of ASCII. It is handed on and not used here.
	Zone string `json:"zone,omitempty"`

	// Priority ranks the instances. Those with the smallest number are used;
	// the others stand by for when there is none of these.
	Priority uint16 `json:"priority,omitempty"`

	// Weight is the instance's share among those of its priority. Zero means 1.
	Weight uint16 `json:"weight,omitempty"`

	// Meta is what else there is to know of the instance, up to 4 KiB. It is
	// for everyone to read: no place for secrets.
	Meta map[string]string `json:"meta,omitempty"`
}

const (
	maxID   = 128
	maxZone = 64
	maxMeta = 4 << 10
)

// Addr returns host:port, with brackets where IPv6 wants them.
func (e Endpoint) Addr() string {
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// URL returns the endpoint's URL, without a path.
func (e Endpoint) URL() *url.URL {
	return &url.URL{Scheme: e.scheme(), Host: e.Addr()}
}

// String returns the endpoint's URL. Meta is left out.
func (e Endpoint) String() string { return e.URL().String() }

// GoString leaves Meta out too.
func (e Endpoint) GoString() string {
	return "location.Endpoint{" + strconv.Quote(e.ID) + " " + e.String() + "}"
}

func (e Endpoint) scheme() string {
	if e.Scheme == "" {
		return "http"
	}
	return e.Scheme
}

func (e Endpoint) weight() uint16 { return max(e.Weight, 1) }

func (e Endpoint) clone() Endpoint {
	e.Meta = maps.Clone(e.Meta)
	return e
}

func (e Endpoint) equal(o Endpoint) bool {
	meta := maps.Equal(e.Meta, o.Meta)
	e.Meta, o.Meta = nil, nil
	return meta && equalFields(e, o)
}

func (e Endpoint) samePlace(o Endpoint) bool {
	return e.Scheme == o.Scheme && e.Host == o.Host && e.Port == o.Port
}

func equalFields(e, o Endpoint) bool {
	return e.ID == o.ID && e.Scheme == o.Scheme && e.Host == o.Host && e.Port == o.Port &&
		e.Zone == o.Zone && e.Priority == o.Priority && e.Weight == o.Weight
}

// checked returns the endpoint in its one spelling, sharing nothing with e, or
// says why nobody could use it. An empty ID stays empty.
func (e Endpoint) checked() (Endpoint, error) {
	host, err := cleanHost(e.Host)
	if err != nil {
		return Endpoint{}, err
	}
	e.Host = host
	e.Scheme = strings.ToLower(e.scheme())
	size := 0
	for k, v := range e.Meta {
		size += len(k) + len(v)
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return Endpoint{}, invalid("the endpoint's meta is not UTF-8")
		}
	}
	switch {
	case e.Port == 0:
		return Endpoint{}, invalid("the endpoint has no port")
	case !isScheme(e.Scheme):
		return Endpoint{}, invalid("the endpoint's scheme is not that of a URL")
	case len(e.ID) > maxID || !isGraphic(e.ID):
		return Endpoint{}, invalid("the endpoint's id is not up to %d graphic ASCII characters", maxID)
	case len(e.Zone) > maxZone || !isGraphic(e.Zone):
		return Endpoint{}, invalid("the endpoint's zone is not up to %d graphic ASCII characters", maxZone)
	case size > maxMeta:
		return Endpoint{}, invalid("the endpoint's meta is larger than %d bytes", maxMeta)
	}
	if len(e.Meta) == 0 {
		e.Meta = nil
	}
	return e.clone(), nil
}

func isGraphic(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func isScheme(s string) bool {
	for i := range len(s) {
		letter := 'a' <= s[i] && s[i] <= 'z'
		if !letter && (i == 0 || !isAlnum(s[i]) && !strings.ContainsRune("+-.", rune(s[i]))) {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// cleanHost returns host in its one spelling: addresses as netip prints them,
// names in lower case and without a dot at the end.
func cleanHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		switch {
		case addr.IsUnspecified():
			return "", invalid("the endpoint's host stands for every address of a machine, and for none from elsewhere")
		case addr.IsMulticast():
			return "", invalid("the endpoint's host is a multicast address")
		case !isGraphic(addr.Zone()) || strings.ContainsAny(addr.Zone(), "%/[]@?#\"<>\\^`{|}"):
			return "", invalid("the endpoint's host has a zone that no URL can have")
		}
		return addr.String(), nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	// A name may have underscores, though a host's should not; services in
	// containers have them.
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case name == "":
		return "", invalid("the endpoint has no host")
	case !isClean(strings.ReplaceAll(name, "_", "x")):
		return "", invalid("the endpoint's host is neither an IP address nor a name")
	case strings.Trim(last, "0123456789") == "":
		return "", invalid("the endpoint's host looks like an IP address and is none")
	}
	return name, nil
}
