// Package agent defines the interface org.deviceconfig.Agent1 in varlink: programs of root on
// this host read the account, and put a profile from a configuration that they bring on the
// GPUs. A [Host] carries out the calls.
package agent
