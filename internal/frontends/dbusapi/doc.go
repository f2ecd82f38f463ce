// Package dbusapi is dcm on the system bus: one object for the daemon, one for each
// GPU, and the methods that ask the daemon for something. It decides who may ask.
//
// It is handed what to show and whom to ask, and knows no files, no sysfs and no
// configuration. The daemon works without it: it connects when there is a bus,
// again when the bus comes back, and nobody waits for it.
package dbusapi
