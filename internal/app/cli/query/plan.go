package query

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/app/plan"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/gpu/record"
	"dcm/internal/leases/reservation"
	"dcm/internal/text"
)

// Plan is the output of dcm plan --json.
type Plan struct {
	plan.Preview
	Warnings []string      `json:"warnings"`   // they do not prevent the change
	Pending  string        `json:"pending"`    // a memory mode that takes effect when the driver is loaded next
	Parts    []plannedPart `json:"partitions"` // those of the GPUs that change

	// BusyCheck is whether a process on another GPU blocks a switch of a compute mode; "" if
	// that is unknown, or if the plan has none.
	BusyCheck gpu.BusyCheck `json:"busy_check"`
	// Made are texts about the GPUs whose modes leases have set.
	Made []string `json:"made"`

	name func(string) string // of GPUs in a text, for a kind of node; nil: this host
}

func PlanCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [PROFILE] [--json] [--node KIND]",
		Short: "Show what applying a profile would do",
		Long: `Show the steps to the profile and the units that would be restarted. Also show what
would block the change now. Nothing is changed. The default is the selected profile.
The exit status is 0 if there is nothing to do and 2 if there are changes. It is 1 if
the profile cannot be applied or would be refused. With --node, plan for a node of that
kind as it is after its first boot, or as it was recorded, instead of this host.`,
		Example:           "  dcm plan cpx-nps4\n  dcm plan all-1g.10gb --node h100-8",
		Args:              console.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: nodemodel.ProfileNames(h),
	}
	asJSON := con.JsonFlag(cmd)
	kind := nodemodel.NodeFlag(cmd, "plan for a `KIND` of node")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if *kind != "" {
			return planned(h, con, given, *kind, *asJSON)
		}
		return printPlan(c.Context(), h, con, given, *asJSON)
	}
	return cmd
}

// newPlan returns a plan without steps, whose lists are empty in JSON, not null.
func newPlan(profile string) Plan {
	return Plan{Preview: plan.NewPreview(profile), Warnings: []string{}, Parts: []plannedPart{}, Made: []string{}}
}

// planned prints the plan for a kind of node after its first boot.
func planned(h *host.Host, con *console.Console, given []string, kind string, asJSON bool) error {
	gpus, err := record.Node(kind)
	if err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	profile, err := plan.ChooseOn(cfg, gpus, given...)
	if err != nil {
		return err
	}
	name := nodemodel.NamesByIndex(gpus)
	p := newPlan(profile.Name)
	p.name = name
	after, steps, err := nodemodel.Outcome(profile, gpus)
	if err == nil {
		p.Steps, p.Reload = append(p.Steps, steps...), steps.Reloads()
		short := gpu.UnusedMinors(host.OpenNode(h, nil).Drivers().Traits()).Shortage(after)
		if short != nil {
			p.Warnings = append(p.Warnings, runstate.WithHint(name(short.Text), short.Hint))
		}
		for _, text := range reservation.NothingToMake(profile, gpus) {
			p.Warnings = append(p.Warnings, name(text))
		}
		err = reservation.Room(cfg.Reservations, after, short)
	}
	if err != nil {
		return errors.New(name(err.Error()))
	}
	return p.report(con, asJSON)
}

// ShowPlan returns a function that prints the plan of a profile. Its error has no text if it printed one, and the exit
// status of dcm plan.
func ShowPlan(h *host.Host, con *console.Console) func(ctx context.Context, profile string) error {
	return func(ctx context.Context, profile string) error {
		return printPlan(ctx, h, con, []string{profile}, false)
	}
}

func printPlan(ctx context.Context, h *host.Host, con *console.Console, given []string, asJSON bool) error {
	cfg, d, name, err := plan.Compare(ctx, h, client.FromDaemon(h), given...)
	if err != nil {
		return err
	}
	a := client.Account(ctx, h)
	if d, err = plan.WithInstances(h, cfg, d, client.Holders(a)); err != nil {
		return err
	}
	p := newPlan(name)
	p.Add(d)
	p.Pending = pending(a)
	if remark := plan.OtherVendor(d, name); remark != "" {
		p.Warnings = append(p.Warnings, remark)
	}
	for _, g := range d.GPUs {
		if g.HasMadeMode() {
			p.Made = append(p.Made, g.MadeMode.Describe(g.Address))
		}
	}
	for _, g := range a.GPUs {
		changed := slices.ContainsFunc(d.Steps, func(s partition.Step) bool {
			return s.GPU == partition.Address(g.Address) || slices.Contains(s.Hive, partition.Address(g.Address))
		})
		if g.HeldMemory > 0 && changed {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s has %s of memory in use that no process holds: the driver may refuse the change", g.Address, text.GiB(g.HeldMemory)))
		}
	}
	if profile, known := cfg.Lookup(name); known == nil {
		p.Warnings = append(p.Warnings, reservation.NothingToMake(profile, d.GPUs)...)
	}
	p.Warnings = append(p.Warnings, append(cfg.SharedBudgets(), host.UnknownUnits(ctx, h, cfg)...)...)
	if n := a.Managed(); n < a.Expected.GPUs && !a.Running() {
		p.Warnings = append(p.Warnings, a.Expected.Text(n)+"; the plan is for the others")
	}
	if a.Running() {
		p.Warnings = append(p.Warnings, "a change is under way; the plan is for the GPUs as they are now, and does not show what would block it")
	}
	if len(d.Steps) > 0 {
		if short := host.Shortage(h, partition.Forecast(d.GPUs, d.Steps)); short != nil {
			p.Warnings = append(p.Warnings, runstate.WithHint(short.Text, short.Hint))
		}
		p.Parts = plannedParts(d, a)
		if switchesCompute(d.Steps) {
			p.BusyCheck = host.OpenNode(h, cfg).BusyCheck(partition.AMD)
		}
		if !a.Running() { // a run stops clients, which block nothing then
			p.Judge(ctx, h, con, a, cfg, d)
		}
	}
	return p.report(con, asJSON)
}

// report prints the plan as text or JSON, and returns the exit status.
func (p Plan) report(con *console.Console, asJSON bool) error {
	var err error
	if asJSON {
		err = con.Answer(p)
	} else {
		p.print(con)
	}
	switch {
	case err != nil:
		return err
	case p.Refused != nil:
		return exitcode.With(exitcode.Failed, nil)
	case len(p.Steps) > 0:
		return exitcode.With(exitcode.Differs, nil)
	}
	return nil
}

// Judge finds the units that the run would restart, and whether it would be refused, by the
// daemon's rules.
func (p *Plan) Judge(ctx context.Context, h *host.Host, con *console.Console, a status.Account, cfg *config.Config, d apply.Difference) {
	if err := client.WhyHidden(a, "holders"); err != nil {
		con.Warn(err.Error())
	}
	for _, found := range a.Problems {
		if found.State == status.Held { // its holder is not visible here either
			con.Warn(found.Text)
		}
	}
	blocking := d.InWay(client.Holders(a))
	f, err := plan.Foresee(ctx, h, cfg, d, blocking)
	if err != nil {
		if h.Here() || len(host.Clients(h, cfg)) > 0 {
			con.Warn("cannot determine which clients would restart: " + err.Error())
		}
		f = daemon.Forecast{Holders: blocking, Refused: d.Refusal(true, blocking)}
	}
	p.Preview.Judge(cfg, d, f)
	if p.Refused != nil && p.Profile != cfg.Selected { // nothing would be repeated
		refused := *p.Refused
		refused.Hint = runstate.Withdrawn(refused.Hint)
		p.Refused = &refused
	}
	for _, unit := range f.Included {
		p.Warnings = append(p.Warnings, unit+" has a GPU open; it would become a client until the next boot")
	}
	if cfg.ReloadDriver {
		for _, name := range d.Modules() {
			p.Warnings = append(p.Warnings, "the kernel module "+name+" is unloaded for the change and loaded again")
		}
	}
}

// pending returns a requested memory mode that is not effective yet, "" if there is none. A
// request is for a whole hive.
func pending(a status.Account) string {
	for _, g := range a.GPUs {
		if g.Pending != "" {
			return g.Pending
		}
	}
	return ""
}

// switchesCompute reports whether a plan switches compute modes without a driver reload, which needs the
// driver for itself.
func switchesCompute(steps partition.Steps) bool {
	return !steps.Reloads() && slices.ContainsFunc(steps, func(s partition.Step) bool { return s.Kind == partition.SwitchCompute })
}

func (p Plan) print(con *console.Console) {
	if len(p.Steps) == 0 {
		con.Printf("Nothing to do: the GPUs match profile %s.\n", p.Profile)
	} else {
		con.Printf("To put profile %s on the GPUs:\n", p.Profile)
	}
	for i, text := range stepTexts(p.Steps) {
		if p.name != nil {
			text = p.name(text)
		}
		con.Printf("  %d. %s\n", i+1, text)
	}
	printParts(con, p.Parts)
	if p.Pending != "" {
		con.Printf("%s is pending; it takes effect when the driver is loaded next.\n", p.Pending)
	}
	for _, text := range p.Made {
		con.Println(text)
	}
	for _, w := range p.Warnings {
		con.Println(con.Yellow("Warning: ") + console.Indent(w))
	}
	if len(p.Steps) == 0 {
		return
	}
	if p.name != nil {
		return // a kind of node has no units
	}
	if p.Refused != nil {
		con.Println(con.Red("It would be refused now: ") + console.Indent(p.Refused.Message()))
		return
	}
	for _, a := range p.Left {
		con.Printf("%s would stay as it is now.\n", a)
	}
	if len(p.Left) > 0 {
		con.Println(console.Indent(runstate.InUse(p.Holders).Message()))
	}
	if switchesCompute(p.Steps) {
		con.Printf("The driver's check before a switch: %s.\n", p.BusyCheck)
	}
	if len(p.Rounds) > 0 || p.Waits != nil {
		printRounds(con, p.Rounds, p.Waits)
		return
	}
	if len(p.Clients) == 0 {
		con.Println("No unit would be restarted.")
		return
	}
	con.Println("These units would be restarted around it:")
	for _, c := range p.Clients {
		con.Println("  " + c)
	}
}
