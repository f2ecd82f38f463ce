package change

import (
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/engine/history"
)

func TestFormerOf(t *testing.T) {
	a := []history.Entry{{Profile: "a"}, {Profile: "b"}}
	for _, test := range []struct {
		name    string
		cfg     config.Config
		passing bool
		runs    []history.Entry
		want    former
	}{
		{"permanent", config.Config{Selected: "x", Persistent: "x"}, false, a, former{"a", permanently}},
		{"until reboot", config.Config{Selected: "x", Persistent: "p"}, true, a, former{"a", untilReboot}},
		{"until reboot, instead of the former one", config.Config{Selected: "x", Persistent: "a"}, true, a, former{"a", cleared}},
		{"unconfirmed", config.Config{Unconfirmed: &config.Unconfirmed{Former: "p"}}, true, a, former{"p", cleared}},
		{"unconfirmed, none before", config.Config{Unconfirmed: &config.Unconfirmed{}}, true, a, former{"none", cleared}},
		{"unconfirmed, until reboot before", config.Config{Unconfirmed: &config.Unconfirmed{Former: "q", Otherwise: "q"}}, true, a, former{"q", untilReboot}},
		{"unconfirmed, none until reboot before", config.Config{Unconfirmed: &config.Unconfirmed{Otherwise: "none"}}, true, nil, former{"none", untilReboot}},
		{"without a history", config.Config{Selected: "x"}, false, nil, former{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := formerOf(&test.cfg, test.passing, test.runs); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
