// Package dbusapi serves dcm on the system bus: one object for the daemon, one for each GPU
// and each partition, and the methods of the daemon. It decides which callers may call which
// method. It also contains the client that the commands use.
//
// The package gets an account to publish and a [Control] to call. It must not import the
// configuration, sysfs or the daemon. The daemon also works without a bus: the service connects
// when the bus starts, and again after a restart of the bus.
package dbusapi
