// Package kubernetes reads the Kubernetes form: the config.json of the device config manager of
// AMD's GPU operator, or a ConfigMap that holds one. It returns it as a document of dcm.toml.
//
// It must not import config, which reads this form as one of its layers.
package kubernetes
