// Package config turns the configuration files of dcm into one validated
// [Config].
//
// The layers are, later wins key by key:
//
//	/usr/lib/dcm/dcm.toml.d/*.toml   shipped profiles
//	/etc/dcm/config.json             the Kubernetes form, if there is one
//	/etc/dcm/dcm.toml                the administrator's file, dcm use
//	/etc/dcm/agent.toml              what an agent was let install, with [agent] enabled
//	/etc/dcm/dcm.toml.d/*.toml       drop-ins
//	/run/dcm/dcm.toml.d/*.toml       until reboot, dcm apply PROFILE
//	kernel command line              dcm.profile=NAME
//
// Inside a directory the files count in lexical order. Tables merge, so that a
// drop-in may change one key of a profile defined elsewhere; everything else,
// arrays included, replaces. A file of the same name in another directory masks
// nothing: it is one more layer.
//
// Nothing unknown becomes a default. Every problem of every file is told at
// once, with its file, line, key, value and what would be accepted. A value that
// a later layer hides must be right all the same.
//
// A selection for good is one line of dcm.toml, whoever writes it. A selection until
// reboot says what it was made instead of, and counts as long as that is so.
//
// version may be absent everywhere, as in any other systemd-style drop-in; it is
// there so that a file written for a later dcm is refused and not misread.
//
// Files that someone else than root could have written, or have put where they are,
// are refused, and so is whatever is no plain text file of sensible size. Too many are
// refused unread.
//
// The package does not know what hardware is present, which units exist, or what
// a profile is good for.
package config
