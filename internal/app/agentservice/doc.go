// Package agentservice is dcm-agent.service. It answers agents on a socket that systemd passes: it
// plans their texts, installs them as the configuration, and calls the daemon to apply them. It
// changes no GPU.
package agentservice
