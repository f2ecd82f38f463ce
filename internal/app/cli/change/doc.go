// Package change has the commands that apply a profile, and shows the run until it ends.
package change
