// Package unit has the commands that dcm's units run.
package unit
