// Package change has the commands that put a profile on the GPUs, and shows the run until its end.
package change
