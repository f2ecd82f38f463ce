package selftest

import (
	_ "embed"
	"encoding/json"
)

// claims is made of the simulator, by a test of package cli that asks it in every mode
// and fails where this is not what it says.
//
//go:embed claims.json
var claims []byte

// Claims are the facts as the simulator has them.
func Claims() (Facts, error) {
	var f Facts
	return f, json.Unmarshal(claims, &f)
}
