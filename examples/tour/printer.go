package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A printer writes what the tour shows. Without color it writes plain text.
type printer struct {
	out   io.Writer
	color bool
}

const (
	bold  = "\x1b[1m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

func (p printer) paint(style, text string) string {
	if !p.color || style == "" {
		return text
	}
	return style + text + reset
}

func (c cell) style() string {
	if c.holds {
		return green
	}
	return red
}

// start and step are the progress: what begins, and what came of it.
func (p printer) start(r row) {
	fmt.Fprintf(p.out, "\n%s: %s\n", p.paint(bold, r.name), r.done)
}

func (p printer) step(name string, c cell) {
	fmt.Fprintf(p.out, "  %-8s %s\n", name, p.paint(c.style(), c.text))
}

// widths of the columns; with what stands between them, 100 characters.
var widths = [...]int{12, 26, 27, 26}

func (p printer) table(results []result) {
	var b strings.Builder
	b.WriteByte('\n')
	p.line(&b, [...]string{"transparency", "what was done to the system", "what the client saw without", "what it saw with"}, [...]string{bold, bold, bold, bold})
	for _, r := range results {
		for i, w := range widths {
			if i > 0 {
				b.WriteString("-+-")
			}
			b.WriteString(strings.Repeat("-", w))
		}
		b.WriteByte('\n')
		p.line(&b, [...]string{r.name, r.done, r.sawWithout.text, r.sawWith.text}, [...]string{bold, "", r.sawWithout.style(), r.sawWith.style()})
	}
	_, _ = io.WriteString(p.out, b.String()) // the output keeps its error
}

// line writes one row of the table on as many lines as its longest cell needs.
func (p printer) line(b *strings.Builder, cells, styles [len(widths)]string) {
	var wrapped [len(widths)][]string
	height := 0
	for i, text := range cells {
		wrapped[i] = wrap(text, widths[i])
		height = max(height, len(wrapped[i]))
	}
	for n := range height {
		gap := "" // before the next text; none at the end of a line
		for i, lines := range wrapped {
			if i > 0 {
				gap += " | "
			}
			if n >= len(lines) {
				gap += strings.Repeat(" ", widths[i])
				continue
			}
			b.WriteString(gap + p.paint(styles[i], lines[n]))
			gap = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(lines[n]))
		}
		b.WriteString(strings.TrimRight(gap, " ") + "\n")
	}
}

// wrap breaks text between words into lines of at most width runes; a word that
// is longer than that is cut.
func wrap(text string, width int) []string {
	var lines []string
	line := []rune{}
	for _, field := range strings.Fields(text) {
		word := []rune(field)
		if len(line) > 0 && len(line)+1+len(word) <= width {
			line = append(append(line, ' '), word...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, string(line))
		}
		for len(word) > width {
			lines = append(lines, string(word[:width]))
			word = word[width:]
		}
		line = word
	}
	if len(line) > 0 {
		lines = append(lines, string(line))
	}
	return lines
}
