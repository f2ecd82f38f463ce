package examples

import (
	"fmt"
	"slices"
	"strings"
)

// parser collects the examples of one file.
type parser struct {
	file, section string
	line          int      // of the text that is read
	marks         []string // not yet of an example
	all           []string // of each example of the section
	now           Example  // the block that is read
	found         []Example
	err           error
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = fmt.Errorf("%s:%d: %w", p.file, p.line, err)
	}
}

// mark adds a mark: of the next example, or of each example of the section.
func (p *parser) mark(text string) {
	if all, ok := strings.CutPrefix(text, "section "); ok {
		p.all = append(p.all, all)
		return
	}
	p.marks = append(p.marks, text)
}

// enter begins a section.
func (p *parser) enter(title string) { p.section, p.marks, p.all = title, nil, nil }

// begin begins a block whose text starts in that line.
func (p *parser) begin(line int) {
	p.now = Example{File: p.file, Line: line, Section: p.section}
	p.marks = append(slices.Clone(p.all), p.marks...)
	p.take("")
}

// within gives the marks inside a block to its next line.
func (p *parser) within(line string) {
	p.take(strings.TrimPrefix(strings.TrimPrefix(line, "$ "), "sudo "))
}

func (p *parser) take(next string) {
	for _, m := range p.marks {
		if err := p.now.Mark.add(m, next); err != nil {
			p.fail(err)
		}
	}
	p.marks = nil
}

// end ends the block.
func (p *parser) end(text string) {
	p.now.Text = text
	p.now.Kind = kind(text, p.now.Mark)
	p.found = append(p.found, p.now)
}

// inline adds a text in a sentence if it is a command with arguments, or a setting with its value.
func (p *parser) inline(text string) {
	what := Script
	switch {
	case setting.MatchString(text) && !strings.Contains(text, "...") && !strings.Contains(text, "DURATION"): // not the title of a setting
		what = Setting
	case !isCommand(text) || !strings.Contains(text, " "):
		return
	}
	p.begin(p.line)
	p.now.Inline = true
	p.now.Text, p.now.Kind = text, what
	p.found = append(p.found, p.now)
}
