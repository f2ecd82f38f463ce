package selftest

import (
	_ "embed"
	"encoding/json"
)

// A test of package cli generates claims.json from the simulator in every mode, and fails if
// the file differs.
//
//go:embed claims.json
var claims []byte

// Claims returns the facts of the simulator.
func Claims() (Facts, error) {
	var f Facts
	return f, json.Unmarshal(claims, &f)
}
