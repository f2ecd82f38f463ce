// Package config turns the configuration files of dcm into one validated
// [Config].
//
// The layers are, later wins key by key:
//
//	/usr/lib/dcm/dcm.toml.d/*.toml   shipped profiles
//	/etc/dcm/config.json             the Kubernetes form, if there is one
//	/etc/dcm/dcm.toml                the administrator's file, dcm use
//	/etc/dcm/agent.toml              what an agent has installed, if [agent] enabled is true
//	/etc/dcm/dcm.toml.d/*.toml       drop-ins
//	/run/dcm/dcm.toml.d/*.toml       until reboot, dcm apply PROFILE
//	kernel command line              dcm.profile=NAME
//
// Inside a directory the files count in lexical order. Tables merge, so that a drop-in can change
// one key of a profile that another file defines. Every other value, arrays included, replaces the
// earlier one; reservations add up. A file does not mask a file of the same name in another
// directory.
//
// An unknown key or value is an error and never a default. All problems of all files are returned
// together, each with its file, line, key, value and what is accepted. A value that a later layer
// hides must be valid too.
//
// A persistent selection is one line of dcm.toml. A selection until reboot states what it was
// made instead of, and counts only while that is still selected.
//
// The key version is optional. It exists so that a file for a later dcm is refused.
//
// The package does not know which hardware is present, which units exist, or what a profile is for.
// It must not import importer and selection, which use it.
package config
