// Package console is the output of a command, with colours and tables, and the options that
// several commands have. It does not depend on a command.
package console
