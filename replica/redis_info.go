package replica

import (
	"strconv"
	"strings"
	"time"
)

// parseInfo reads the answer to INFO replication. What it does not find is not
// known.
func parseInfo(text string) Status {
	var s Status
	var link, linkDown, offset string
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		switch name {
		case "role":
			switch value {
			case "master":
				s.Role = RolePrimary
			case "slave", "replica":
				s.Role = RoleReplica
			}
		case "master_replid":
			s.Epoch = replid(value)
		case "master_replid2":
			s.Previous = replid(value)
		case "master_repl_offset", "slave_repl_offset":
			if offset == "" || name == "slave_repl_offset" {
				offset = value
			}
		case "master_link_status":
			link = value
		case "master_link_down_since_seconds":
			linkDown = value
		}
	}
	if n, err := strconv.ParseUint(offset, 10, 64); err == nil {
		s.Offset = n
	}
	if s.Role == RoleReplica && link != "up" {
		s.LinkDown = down(linkDown)
	}
	return s
}

// replid returns a replication id, or "" for the one of zeros that stands for
// none.
func replid(id string) string {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

// down returns for how long the link is down. Redis says -1 when there never
// was one, and so does what it does not say.
func down(seconds string) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return max(time.Duration(min(n, most))*time.Second, 1)
}
