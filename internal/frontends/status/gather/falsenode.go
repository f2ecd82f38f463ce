package gather

import (
	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
)

// FalseNode returns the problem that /dev/kfd is a regular file, nil if it is not. A
// program that opens the name with O_CREAT before the driver is loaded creates the file,
// and devtmpfs then cannot create the node (drivers/base/devtmpfs.c, handle_create).
// Only a file in a tmpfs counts, which devtmpfs is: a simulated node is no device either.
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
