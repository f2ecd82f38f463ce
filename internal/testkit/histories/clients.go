package histories

import (
	"strconv"
	"strings"
	"time"

	"dcm/internal/gpu/partition"
)

// client is the program of a unit that is not dcm's.
func (p *process) client() {
	w := p.w
	name, argument, _ := strings.Cut(p.program, " ")
	switch name {
	case "sleep":
		<-p.ctx.Done()
		p.exit(0)
	case "fail":
		p.exit(1)
	case "crash":
		p.sleep(200 * time.Millisecond)
		p.exit(7)
	case "driver":
		status := 1
		p.effect("look for the driver", func() {
			if w.gpus.loaded() {
				status = 0
			}
		})
		p.exit(status)
	case "once":
		status := 0
		p.effect("look for a fault", func() {
			if w.armed[p.unit] {
				delete(w.armed, p.unit)
				status = 1
			}
		})
		p.exit(status)
	case "ready":
		d, _ := time.ParseDuration(argument)
		p.use(0, nil)
		p.sleep(d)
		p.effect("READY=1", func() { w.pid1.Ready(p.unit) })
		<-p.ctx.Done()
		p.exit(0)
	case "gpu-late":
		p.use(800*time.Millisecond, nil)
		<-p.ctx.Done()
		p.exit(0)
	default:
		var only []partition.Address
		if i, err := strconv.Atoi(argument); err == nil {
			only = w.gpus.addresses()[i : i+1]
		}
		p.use(0, only)
		<-p.ctx.Done()
		p.exit(0)
	}
}

// use opens GPUs. Without them the process ends after a delay.
func (p *process) use(delay time.Duration, only []partition.Address) {
	var err error
	p.effect("open the GPUs", func() {
		switch err = p.open(only); {
		case err == nil:
			p.w.pid1.Accept(p.unit)
		case !p.w.gpus.present(only):
			p.w.checks.failed(p.unit)
		case p.w.alive(func(o *process) bool { return o.program == drifter }) != nil:
			p.w.checks.failed(p.unit) // the other program has locked the GPU
		}
	})
	if err == nil {
		return
	}
	p.sleep(delay)
	p.exit(1)
	<-p.ctx.Done()
	p.effect("end", func() {})
}

// sleep waits, or until SIGTERM.
func (p *process) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.ctx.Done():
	}
}
