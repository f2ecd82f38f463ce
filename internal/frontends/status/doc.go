// Package status is what is so now, as one value: the profile, the GPUs and their
// partitions, the clients, the units, who has a GPU open, the last run, and what
// is wrong. It is gathered in one pass, by [Gather], and judged by one function,
// [Evaluate]; whatever tells somebody how a host is renders an [Account] and looks at
// nothing else.
//
// Its JSON form is dcm-account(5). Within a version fields are added, and none is
// changed or taken away.
//
// It changes nothing, and it knows no vendor: what a GPU's modes are called and
// where its driver shows them is for those who look, who are handed to Gather. What
// could not be looked at is told as hidden, never as gone.
package status
