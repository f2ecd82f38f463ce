// Package fluxcmd has the commands that Flux runs around a job, and the one that its mapper of devices runs.
package fluxcmd
