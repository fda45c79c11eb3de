package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTable(t *testing.T) {
	results := []result{
		{row{name: "access", done: "it moved"}, cell{"an error", true}, cell{"the same", true}},
		{row{name: "relocation", done: "a server went away while the client was using it"}, cell{"", true}, cell{"DOES NOT HOLD: " + strings.Repeat("ü", 30), false}},
	}
	const want = `
transparency | what was done to the       | what the client saw without | what it saw with
             | system
-------------+----------------------------+-----------------------------+---------------------------
access       | it moved                   | an error                    | the same
-------------+----------------------------+-----------------------------+---------------------------
relocation   | a server went away while   |                             | DOES NOT HOLD:
             | the client was using it    |                             | üüüüüüüüüüüüüüüüüüüüüüüüüü
             |                            |                             | üüüü
`
	var plain strings.Builder
	printer{out: &plain}.table(results)
	if got := trimBars(plain.String()); got != trimBars(want) {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}

	var colored strings.Builder
	printer{out: &colored, color: true}.table(results)
	for _, code := range []string{bold, green, red} {
		if !strings.Contains(colored.String(), code) {
			t.Errorf("the colored table has no %q", code)
		}
	}
	if got := strings.NewReplacer(bold, "", green, "", red, "", reset, "").Replace(colored.String()); got != plain.String() {
		t.Errorf("without its colors the table is\n%s\nwant\n%s", got, plain.String())
	}
}

// trimBars leaves out the bars of empty cells at the end of lines.
func trimBars(table string) string {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " |")
	}
	return strings.Join(lines, "\n")
}

func FuzzWrap(f *testing.F) {
	f.Add("two words", 5)
	f.Add("  ü  wörd-that-is-longer\n\tthan ", 7)
	f.Fuzz(func(t *testing.T, text string, width int) {
		if width < 1 || width > 200 || !utf8.ValidString(text) {
			t.Skip()
		}
		lines := wrap(text, width)
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n == 0 || n > width {
				t.Errorf("wrap(%q, %d) has a line of %d runes", text, width, n)
			}
		}
		got := strings.Join(strings.Fields(strings.Join(lines, "")), "")
		if want := strings.Join(strings.Fields(text), ""); got != want {
			t.Errorf("wrap(%q, %d) = %q; it lost something", text, width, lines)
		}
	})
}

// One more transparency must fit into the first column.
func TestNames(t *testing.T) {
	var names []string
	for _, r := range rows {
		if len(r.name) > widths[0] || strings.Contains(r.name, " ") || slices.Contains(names, r.name) {
			t.Errorf("the name %q does not fit, or is there twice", r.name)
		}
		names = append(names, r.name)
	}
}
