// Package query has the commands that show the state of the host and change nothing.
package query
