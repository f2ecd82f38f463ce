package amdsmi

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is a library version as the library spells it in
// amdsmi_version_t.build: "24.5.2.0", with the year in front, until 26.0, and
// "27.1.0" since.
type Version struct {
	Text   string
	number [4]int
}

var versionForm = regexp.MustCompile(`^([0-9]{1,5}(?:\.[0-9]{1,5}){1,3})(?:[+-][0-9A-Za-z.+-]{1,40})?$`)

// ParseVersion accepts two to four numbers with dots between them, and a build
// suffix behind "+" or "-".
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

// compare looks at the first three numbers; a fourth counts builds of one
// release.
func (v Version) compare(number [3]int) int {
	return slices.Compare(v.number[:3], number[:])
}
