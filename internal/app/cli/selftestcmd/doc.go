// Package selftestcmd has the command of the self-test, which observes the GPUs for package selftest.
package selftestcmd
