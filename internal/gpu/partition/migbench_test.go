package partition

import (
	"math/rand/v2"
	"testing"
	"time"
)

// divisions returns all geometries of a board, each once: as wanted, and with the placements that
// it then has.
func divisions(t testing.TB, slots []InstanceProfile) (want, have []MIG) {
	counts := make(map[string]int)
	var more func(from int)
	more = func(from int) {
		m, err := NewMIG(counts)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := Pack(slots, m)
		if err != nil {
			return
		}
		want, have = append(want, m), append(have, packed)
		for i := from; i < len(slots); i++ {
			counts[slots[i].Name]++
			more(i)
			if counts[slots[i].Name]--; counts[slots[i].Name] == 0 {
				delete(counts, slots[i].Name)
			}
		}
	}
	more(0)
	off := MIG{Off: true}
	return append(want, off), append(have, off)
}

// quickest returns the shortest time of three rounds, the one that other processes delayed least.
func quickest(b *testing.B, want Layout, have []GPU) time.Duration {
	least := time.Hour
	for range 3 {
		began := time.Now()
		if _, err := Plan(want, have); err != nil {
			b.Fatal(err)
		}
		least = min(least, time.Since(began))
	}
	return least
}

// BenchmarkAnyGeometryToAnyOther plans for sixteen GPUs. Each changes from one possible geometry to
// another.
func BenchmarkAnyGeometryToAnyOther(b *testing.B) {
	for _, name := range []string{"H100-80GB", "A30", "RTX-PRO-6000"} {
		b.Run(name, func(b *testing.B) {
			board, ok := LookupBoard(name)
			if !ok {
				b.Fatal("there is no such board")
			}
			to, from := divisions(b, board.Profiles)
			have := TypicalMIG(board, 16)
			want := CurrentLayout(have)
			random := rand.New(rand.NewPCG(11, 16))
			var worst time.Duration
			for b.Loop() {
				for i := range have {
					have[i].MIG = &from[random.IntN(len(from))]
					want.Shapes[have[i].Address] = Shape{MIG: &to[random.IntN(len(to))]}
				}
				worst = max(worst, quickest(b, want, have))
			}
			b.ReportMetric(float64(worst.Microseconds()), "µs-at-worst")
			b.ReportMetric(float64(len(to)), "geometries")
		})
	}
}
