package gather

import (
	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
)

// FalseNode returns the problem that /dev/kfd is a regular file, nil if it is not. A program that
// opens the path with O_CREAT before the driver is loaded creates such a file, and devtmpfs then
// cannot create the device node (drivers/base/devtmpfs.c, handle_create). FalseNode ignores files
// outside of a tmpfs (devtmpfs is one), since the simulator creates regular files.
func FalseNode(h *host.Host) *status.Problem {
	var st unix.Stat_t
	var fs unix.Statfs_t
	path := h.Path("dev/kfd")
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
		unix.Statfs(path, &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		return nil
	}
	return &status.Problem{
		State: status.Nodeless,
		Text:  "/dev/kfd: not a device node (found a regular file): a process created it before the amdgpu driver was loaded",
		Hint:  "stop that process (see dcm holders), then: rm /dev/kfd && modprobe -r amdgpu && modprobe amdgpu",
	}
}
