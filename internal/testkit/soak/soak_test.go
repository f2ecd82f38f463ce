package soak

import (
	"math/rand/v2"
	"testing"
)

func TestPick(t *testing.T) {
	steps := []Step{{Name: "a", Weight: 1}, {Name: "never"}, {Name: "b", Weight: 3}}
	count, r := make(map[string]int), rand.New(rand.NewPCG(1, 2))
	const n = 4000
	for range n {
		count[Pick(r, steps).Name]++
	}
	if count["never"] != 0 || count["a"] < n/5 || count["a"] > n*3/10 || count["a"]+count["b"] != n {
		t.Errorf("steps: want a in a quarter of %d and b otherwise, got %v", n, count)
	}
}

func TestRand_Seed(t *testing.T) {
	t.Setenv(SeedVariable, "7")
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a != b {
		t.Errorf("first numbers of one seed: got %d and %d", a, b)
	}
}
