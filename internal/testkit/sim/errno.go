package sim

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Errno is an errno that is written as its name.
type Errno syscall.Errno

// MarshalText returns the name, such as "EBUSY".
func (e Errno) MarshalText() ([]byte, error) {
	return []byte(unix.ErrnoName(syscall.Errno(e))), nil
}

// UnmarshalText parses a name, such as "EBUSY".
func (e *Errno) UnmarshalText(text []byte) error {
	const highest = 133 // EHWPOISON
	for n := syscall.Errno(1); n <= highest; n++ {
		if strings.EqualFold(unix.ErrnoName(n), string(text)) {
			*e = Errno(n)
			return nil
		}
	}
	return fmt.Errorf("errno: unknown name (found %q, want one such as EBUSY)", text)
}

// Duration is a duration that is written as "1.5s", or "forever" if it is negative.
type Duration time.Duration

// Forever is the duration of a call that blocks until it is interrupted.
const Forever Duration = -1

// MarshalText returns a text such as "1.5s".
func (d Duration) MarshalText() ([]byte, error) {
	if d < 0 {
		return []byte("forever"), nil
	}
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText parses a text such as "1.5s" or "forever".
func (d *Duration) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*d = Forever
		return nil
	}
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is neither a duration like 1.5s nor forever", text)
	}
	*d = Duration(v)
	return nil
}
