package configure

import (
	"fmt"
	"slices"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/doctor"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// checkHost prints the findings of the host checks, and their counts last.
func checkHost(h *host.Host, con *console.Console, cfg *config.Config) error {
	r := inspect(h, cfg)
	for _, f := range r.Findings {
		text := runstate.WithHint(f.String(), f.Hint)
		if f.Level == doctor.Error {
			con.Note(console.Indent(text))
		} else {
			con.Warn(text)
		}
	}
	fmt.Fprintf(con.Out, "Host checks: %s.\n", r.Summary())
	return hostError(r)
}

// answerHost prints the result of the host checks as JSON.
func answerHost(h *host.Host, con *console.Console, cfg *config.Config) error {
	r := inspect(h, cfg)
	if err := con.Answer(r); err != nil {
		return err
	}
	return hostError(r)
}

func inspect(h *host.Host, cfg *config.Config) doctor.Report {
	exclusive := func(r config.Reservation) bool { return r.Exclusive }
	return doctor.Run(h.Path(), doctor.Config{
		Clients:   host.Clients(h, cfg),
		Exclusive: slices.ContainsFunc(cfg.Reservations, exclusive),
	})
}

func hostError(r doctor.Report) error {
	if r.Errors == 0 {
		return nil
	}
	return fmt.Errorf("host checks: %s; see dcm-check(7)", r.Summary())
}
