package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"dcm/internal/exitcode"
)

// Ask asks a question on the terminal. Only the answer y or yes agrees. Without a terminal it returns an error.
func (c *Console) Ask(ctx context.Context, question string) (agreed bool, err error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false, exitcode.With(exitcode.Usage, errors.New("nothing was changed: standard input is no terminal\nhint: --yes makes the change without a question"))
	}
	fmt.Fprint(c.Err, question+" [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		return a == "y" || a == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(c.Err)
		return false, nil
	}
}
