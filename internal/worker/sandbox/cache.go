package sandbox

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"runtime"
)

// places returns the directories that glibc's loader searches after its cache, on the distributions
// that dcm supports.
func places() []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	return []string{"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
}

// cached returns the paths of a library in /etc/ld.so.cache. It ignores those for other architectures
// and for specific processors. sysdeps/generic/dl-cache.h in glibc defines the format. Before glibc
// 2.32 the file begins with the same data in an older format. For a damaged cache it returns nothing.
func cached(cache []byte, name string) []string {
	const magic, header, size = "glibc-ld.so.cache1.1", 48, 24
	start := bytes.Index(cache, []byte(magic))
	if start < 0 {
		return nil
	}
	cache = cache[start:]
	if len(cache) < header {
		return nil
	}
	count := int64(binary.NativeEndian.Uint32(cache[20:]))
	if count > int64(len(cache)-header)/size {
		return nil
	}
	var out []string
	for i := range count {
		entry := cache[header+i*size:]
		kind := binary.NativeEndian.Uint32(entry)
		hardware := binary.NativeEndian.Uint64(entry[16:])
		if kind != machine() || hardware != 0 || text(cache, binary.NativeEndian.Uint32(entry[4:])) != name {
			continue
		}
		if file := text(cache, binary.NativeEndian.Uint32(entry[8:])); filepath.IsAbs(file) {
			out = append(out, file)
		}
	}
	return out
}

// machine returns the flags that libraries for this architecture have in the cache.
func machine() uint32 {
	return map[string]uint32{"amd64": 0x0303, "arm64": 0x0a03}[runtime.GOARCH]
}

// text returns the string at an offset, "" if there is none.
func text(b []byte, offset uint32) string {
	if int64(offset) >= int64(len(b)) {
		return ""
	}
	b = b[offset:]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return ""
	}
	return string(b[:end])
}
