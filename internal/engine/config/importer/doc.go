// Package importer writes a dcm.toml from the configuration of another program: the Kubernetes
// form, or the files of NVIDIA's mig-parted and its service.
//
// It reads no file: the caller passes texts. It must not import selection.
package importer
