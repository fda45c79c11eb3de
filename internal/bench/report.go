package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The verdicts.
const (
	verdictOK     = "ok"
	verdictMissed = "MISSED"
	verdictInfo   = "info" // no target is set
)

func verdict(t target, r result) string {
	switch {
	case t == target{}:
		return verdictInfo
	case t.missed(r):
		return verdictMissed
	}
	return verdictOK
}

// nameWidth is the width of the first column.
const nameWidth = 24

const row = "%-*s | %8s | %8s | %-15s | %-24s | %-7s | %-9s | %-9s | %-11s | %-9s | %s"

func header() string {
	return line("name", "ours", "peer", "ratio ± error", "target", "verdict", "trips", "sent", "run", "allocs", "the peer does")
}

// report is one line of a comparison.
func report(c comparison, r result) string {
	peer, ratio, versus := "-", "± "+c.unit.format(r.ours.err()), "-"
	pair := func(ours, _ float64) string { return count(ours) }
	if c.peer != nil {
		peer, versus = c.unit.format(r.peer.median), c.versus
		ratio = factor(r.ratio.median, r.ratio.median) + " ± " + factor(r.ratio.err(), r.ratio.median)
		pair = func(ours, peer float64) string {
			if math.IsNaN(ours) && math.IsNaN(peer) {
				return "-"
			}
			return count(ours) + "/" + count(peer)
		}
	}
	trips, sent, run := "-", "-", "-"
	if c.redis {
		trips = pair(r.oursCount.trips, r.peerCount.trips)
		sent = pair(r.oursCount.sent, r.peerCount.sent)
		run = pair(r.oursCount.run, r.peerCount.run)
	}
	return line(c.name, c.unit.format(r.ours.median), peer, ratio, c.target.text(c.unit), verdict(c.target, r),
		trips, sent, run, pair(r.oursCount.allocs, r.peerCount.allocs), versus)
}

// A unit is what a line is measured in.
type unit uint8

const (
	inTime   unit = iota // nanoseconds
	inTimes              // how many times as much, a bare factor
	inNumber             // how many
	inBytes
)

func (u unit) format(v float64) string {
	switch u {
	case inTimes:
		return factor(v, v)
	case inNumber:
		return count(v)
	case inBytes:
		return strconv.FormatFloat(v/1024, 'f', 1, 64) + "KiB"
	default:
		return duration(v)
	}
}

func line(cells ...any) string {
	return strings.TrimRight(fmt.Sprintf(row, append([]any{nameWidth}, cells...)...), " ")
}

// text says what must be reached, or "-".
func (t target) text(u unit) string {
	var parts []string
	if t.ratio > 0 {
		parts = append(parts, "≤"+factor(t.ratio, t.ratio))
	}
	if t.time > 0 {
		parts = append(parts, "≤"+duration(float64(t.time)))
	}
	if t.most > 0 {
		parts = append(parts, "≤"+u.format(t.most))
	}
	for _, c := range []struct {
		name string
		most float64
	}{{"trips", t.trips}, {"sent", t.sent}, {"allocs", t.allocs}} {
		switch {
		case c.most == none:
			parts = append(parts, c.name+" 0")
		case c.most > 0:
			parts = append(parts, c.name+" ≤"+count(c.most))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// factor prints a ratio with two decimals, or with four where ratios are so
// small that two would say nothing.
func factor(x, ratio float64) string {
	if ratio < 0.095 {
		return strconv.FormatFloat(x, 'f', 4, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// duration prints nanoseconds with three digits.
func duration(ns float64) string {
	unit, name := 1.0, "ns"
	switch {
	case ns >= 999.5*float64(time.Microsecond):
		unit, name = float64(time.Millisecond), "ms"
	case ns >= 999.5:
		unit, name = float64(time.Microsecond), "µs"
	}
	v := ns / unit
	digits := 0
	switch {
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + name
}

// count prints an average: whole when it is whole, and nothing where there is
// none.
func count(n float64) string {
	switch {
	case math.IsNaN(n):
		return "-"
	case n == math.Trunc(n):
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return factor(n, n)
}
