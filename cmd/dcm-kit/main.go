// Command dcm-kit packs the result of the hardware kit. It removes the names of the host and
// of its users from each file.
//
//	dcm-kit DIRECTORY ARCHIVE
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"dcm/internal/frontends/supportbundle"
	"dcm/internal/gpu/record"
	"dcm/internal/linux/atomicfile"
)

// about heads the list of contents.
const about = `Result of the hardware kit of dcm, for its maintainers. It has no names of hosts, users or
processes, and no serial numbers. The file CONTACT of the kit has their address.
`

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: dcm-kit DIRECTORY ARCHIVE")
		os.Exit(64)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], names(), time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "dcm-kit:", err)
		os.Exit(1)
	}
}

// names returns the names of the host and of its users.
func names() record.Names {
	var n record.Names
	if host, err := os.Hostname(); err == nil {
		n.Hosts = append(n.Hosts, host)
	}
	n.Users = append(n.Users, os.Getenv("SUDO_USER"), os.Getenv("USER"), os.Getenv("LOGNAME"))
	if passwd, err := os.ReadFile("/etc/passwd"); err == nil {
		n.Users = append(n.Users, record.People(string(passwd))...)
	}
	return n
}

// run packs the files of a directory, and the files of each .tar.gz in it.
func run(ctx context.Context, dir, archive string, names record.Names, now time.Time) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("%s: no files", dir))
	}
	var parts []supportbundle.Part
	add := func(name string, text []byte) {
		clean := []byte(names.Remove(string(text)))
		parts = append(parts, supportbundle.Part{Name: name, Description: "of the kit", Read: func(context.Context) ([]byte, error) { return clean, nil }})
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		base, packed := strings.CutSuffix(filepath.Base(file), ".tar.gz")
		if !packed {
			add(base, text)
			continue
		}
		if err := unpack(text, func(name string, text []byte) { add(path.Join(base, name), text) }); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	var out bytes.Buffer
	name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
	if err := supportbundle.Write(ctx, &out, name, now, about, parts); err != nil {
		return err
	}
	return atomicfile.Write(archive, out.Bytes(), atomicfile.Options{Mode: 0o644})
}

// unpack calls add for each file of an archive, by its base name.
func unpack(archive []byte, add func(name string, text []byte)) error {
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	for files := tar.NewReader(zip); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(files, 16<<20))
		if err != nil {
			return err
		}
		add(path.Base(h.Name), text)
	}
}
