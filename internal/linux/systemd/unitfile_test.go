package systemd

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwnSlice(t *testing.T) {
	const own, none = "[Service]\nExecStart=x\nSlice=ml.slice\n", "[Service]\nExecStart=x\n"
	for _, c := range []struct {
		name  string
		unit  string
		files map[string]string // a value "-> file" is a link
		want  string
		made  string // the same with what generators have written; "" for no other
	}{
		{name: "nothing is installed", unit: "a.service"},
		{name: "implied", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service": none}},
		{name: "in its file", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service": own}, want: "Slice=ml.slice (/etc/systemd/system/a.service:3)"},
		{name: "hidden by a stronger file", unit: "a.service", files: map[string]string{"usr/lib/systemd/system/a.service": own, "etc/systemd/system/a.service": none}},
		{name: "elsewhere in the file", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service": "[X-Service]\nSlice=x.slice\n#Slice=y.slice\n"}},
		{name: "an empty one", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service": own, "etc/systemd/system/a.service.d/x.conf": "[Service]\nSlice=\n"},
			want: "Slice=ml.slice (/etc/systemd/system/a.service:3)"},
		{name: "the last drop-in wins", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service": own,
			"etc/systemd/system/a.service.d/20.conf": "[Service]\nSlice=b.slice\n", "run/systemd/system/a.service.d/90.conf": "[Service]\nSlice = c.slice\n"},
			want: "Slice=c.slice (/run/systemd/system/a.service.d/90.conf:2)"},
		{name: "one name in two directories", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service.d/x.conf": none,
			"usr/lib/systemd/system/a.service.d/x.conf": own}},
		{name: "dcm's own", unit: "a.service", files: map[string]string{"run/systemd/generator/a.service.d/50-dcm.conf": "[Service]\nSlice=dcm.slice\n"}},
		{name: "an instance's template", unit: "a@1.service", files: map[string]string{"etc/systemd/system/a@.service": own},
			want: "Slice=ml.slice (/etc/systemd/system/a@.service:3)"},
		{name: "the drop-ins of a template", unit: "a@1.service", files: map[string]string{"etc/systemd/system/a@.service": none, "etc/systemd/system/a@.service.d/s.conf": own},
			want: "Slice=ml.slice (/etc/systemd/system/a@.service.d/s.conf:3)"},
		{name: "of a prefix", unit: "a-b-c.service", files: map[string]string{"etc/systemd/system/a-.service.d/s.conf": own},
			want: "Slice=ml.slice (/etc/systemd/system/a-.service.d/s.conf:3)"},
		{name: "of all services", unit: "a.service", files: map[string]string{"etc/systemd/system/service.d/s.conf": own},
			want: "Slice=ml.slice (/etc/systemd/system/service.d/s.conf:3)"},
		{name: "of the real name", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service": "-> b.service", "etc/systemd/system/b.service": none,
			"etc/systemd/system/b.service.d/s.conf": own}, want: "Slice=ml.slice (/etc/systemd/system/b.service.d/s.conf:3)"},
		{name: "masked", unit: "a.service", files: map[string]string{"etc/systemd/system/a.service": "-> /dev/null", "usr/lib/systemd/system/a.service": own}},
		{name: "of a generator's unit", unit: "a.service", files: map[string]string{"run/systemd/generator/a.service": own}, made: "Slice=ml.slice (/run/systemd/generator/a.service:3)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				plant(t, filepath.Join(root, name), text)
			}
			for _, generated := range []bool{false, true} {
				want := c.want
				if generated && c.made != "" {
					want = c.made
				}
				got, err := OwnSlice(root, c.unit, generated)
				if text := got.String(); err != nil || want == "" && got != (Setting{}) || want != "" && text != want {
					t.Errorf("with generated ones %t: %s, %v; want %q", generated, text, err, want)
				}
			}
		})
	}
}

func plant(t *testing.T, file, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if to, link := cutArrow(text); err == nil && link {
		err = os.Symlink(to, file)
	} else if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func cutArrow(text string) (to string, ok bool) {
	if len(text) > 3 && text[:3] == "-> " {
		return text[3:], true
	}
	return text, false
}

func TestInside(t *testing.T) {
	for value, want := range map[string]bool{"dcm.slice": true, "dcm-ml.slice": true, "ml.slice": false, "dcmx.slice": false, "system.slice": false} {
		if got := (Setting{Value: value}).Inside("dcm.slice"); got != want {
			t.Errorf("%s is inside: %t", value, got)
		}
	}
}

func TestInstalled_Precedence(t *testing.T) {
	for name, c := range map[string]struct {
		files         map[string]string // where links lead, "" for a file
		there, masked bool
	}{
		"it is nowhere":           {nil, false, false},
		"installed":               {map[string]string{"usr/lib/systemd/system": ""}, true, false},
		"installed by hand":       {map[string]string{"usr/local/lib/systemd/system": ""}, true, false},
		"masked":                  {map[string]string{"usr/lib/systemd/system": "", "etc/systemd/system": "/dev/null"}, true, true},
		"masked until the reboot": {map[string]string{"usr/lib/systemd/system": "", "run/systemd/system": "/dev/null"}, true, true},
		"masked below its file":   {map[string]string{"etc/systemd/system": "", "run/systemd/system": "/dev/null"}, true, false},
		"a link to nothing":       {map[string]string{"etc/systemd/system": "/nowhere"}, false, false},
	} {
		root := t.TempDir()
		for dir, to := range c.files {
			file := filepath.Join(root, dir, "a.service")
			err := os.MkdirAll(filepath.Dir(file), 0o755)
			if err == nil && to != "" {
				err = os.Symlink(to, file)
			} else if err == nil {
				err = os.WriteFile(file, nil, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if there, masked := Installed(root, "a.service"); there != c.there || masked != c.masked {
			t.Errorf("%s: there %t, masked %t", name, there, masked)
		}
	}
}
