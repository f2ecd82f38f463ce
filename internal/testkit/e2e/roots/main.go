// Command roots creates the root file systems that the tests boot, unless they are in the cache.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"dcm/internal/testkit/e2e"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "roots:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context) error {
	if err := e2e.Missing(); err != nil {
		return err
	}
	for _, r := range e2e.Recipes() {
		if _, err := r.Directory(ctx, os.Stdout); err != nil {
			return err
		}
	}
	return nil
}
