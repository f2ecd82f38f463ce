// Package watch signals changes in directories (inotify) and of devices (uevents). It also handles
// directories that are created, removed or replaced. It does not interpret the files.
package watch
