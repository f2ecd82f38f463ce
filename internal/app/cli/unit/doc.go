// Package unit has the commands that do what the units of dcm do.
package unit
