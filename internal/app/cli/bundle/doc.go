// Package bundle packs the archive for support. It collects files, the journal and the answers of
// commands, which it is given.
package bundle
