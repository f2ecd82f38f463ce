// Package bundle packs the archive for support: files, the journal, and the output of commands.
package bundle
