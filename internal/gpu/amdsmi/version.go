package amdsmi

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is a library version in the form of amdsmi_version_t.build: "24.5.2.0" (with the
// year) before 26.0, "27.1.0" since then.
type Version struct {
	Text   string
	number [4]int
}

var versionForm = regexp.MustCompile(`^([0-9]{1,5}(?:\.[0-9]{1,5}){1,3})(?:[+-][0-9A-Za-z.+-]{1,40})?$`)

// ParseVersion accepts two to four numbers separated by dots, and a build suffix after "+"
// or "-".
func ParseVersion(text string) (Version, error) {
	m := versionForm.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("%q is not a version like 27.1.0", text)
	}
	v := Version{Text: text}
	for i, part := range strings.Split(m[1], ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return Version{}, fmt.Errorf("%q is not a version like 27.1.0: %w", text, err)
		}
		v.number[i] = n
	}
	return v, nil
}

func (v Version) String() string { return v.Text }

// compare compares the first three numbers. A fourth one counts builds of a release.
func (v Version) compare(number [3]int) int {
	return slices.Compare(v.number[:3], number[:])
}
