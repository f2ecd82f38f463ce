// Package agentservice is dcm-agent.service: it answers agents on a socket of systemd's. It
// plans their texts, writes them as the configuration, and has the daemon apply them. It
// changes no GPU.
package agentservice
