// Package soak chooses the random steps of tests that run for a long time.
package soak

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedVariable is the environment variable with the seed of an earlier run.
const SeedVariable = "DCM_SEED"

// Seed returns the value of SeedVariable, or a random number, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed: %s=%d", SeedVariable, seed)
	return seed
}

// Rand returns a source of random numbers with the seed of [Seed].
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Step is a possible step of such a test.
type Step struct {
	Name   string
	Weight int // its probability is Weight divided by the sum of all weights
	Do     func()
}

// Pick returns one of the steps at random. The sum of the weights must be positive.
func Pick(r *rand.Rand, steps []Step) Step {
	total := 0
	for _, s := range steps {
		total += s.Weight
	}
	n := r.IntN(total)
	for _, s := range steps {
		if n -= s.Weight; n < 0 {
			return s
		}
	}
	panic("soak: the weights changed")
}
