// Package dbusapi serves dcm on the system bus: one object for the daemon, one for each GPU
// and each partition, and the methods that request something from the daemon. It decides
// which callers may call which method. It also has the client that the commands use.
//
// The package gets an account to publish and a [Control] to call. It must not import the
// configuration, sysfs or the daemon. The daemon works without a bus: the service connects
// when a bus appears, and again after the bus restarted.
package dbusapi
