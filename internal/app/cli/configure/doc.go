// Package configure has the commands that check, show and convert configurations.
package configure
