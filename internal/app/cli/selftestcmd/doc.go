// Package selftestcmd has the self-test: it checks on this host what package selftest claims.
package selftestcmd
