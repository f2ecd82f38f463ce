// Package reservations chooses partitions for the reservations of the configuration, and
// publishes them: the list of partitions in /run, the links in /dev/dcm, and the devices of
// container engines. It restarts no unit.
package reservations
