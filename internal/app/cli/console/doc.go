// Package console is the terminal of a command: its output, colours, tables and options. It knows
// no command and no host.
package console
