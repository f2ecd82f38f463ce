// Package agent defines the varlink interface org.deviceconfig.Agent1. With it, a program that runs
// as root on this host can read the account, and can apply a profile of a configuration that it sends
// with the call. A [Host] carries out the calls.
package agent
