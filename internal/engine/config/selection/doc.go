// Package selection changes the files of a configuration: the selected profile, permanently or until
// reboot, the file of agents, and the copy of the last good configuration.
//
// Every change is loaded before it is written, so that no command leaves files that cannot be
// used. It must not import importer.
package selection
