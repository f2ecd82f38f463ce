// Package agent is what programs of root's on this host may ask of dcm: the account, and
// to have a profile on the GPUs out of a configuration that they bring. It is the
// interface org.deviceconfig.Agent1 in varlink; what is done for a call, a [Host] does.
package agent
