// The tables of units, leases, partitions, processes, requests and runs.

import { el, pf, table } from "./dom.js";
import { steps as drawSteps } from "./draw.js";
import { t, time } from "./text.js";
import { duration } from "./words.js";

const link = (to, text) => el("a", { href: "#", "data-jump": to }, text);
export const unit = name => (name ? link(`/system/services#/${encodeURIComponent(name)}`, el("code", {}, name)) : "-");
export const when = iso => el("time", { datetime: iso }, time(iso));
const names = list => el("span", { class: "dcm-names" }, list);
const unseen = text => el("span", { class: "dcm-unseen" }, text);

export const clients = list => table(t("Services restarted around a change"), [t("Unit"), t("State"), t("Restored")],
    list.map(c => [unit(c.unit), c.state, c.stopped || c.idle && c.back ? "-" : el("span", { class: c.back ? "" : "dcm-bad" }, c.ended ? t("yes, ended later") : c.back ? t("yes") : t("no"))]),
    t("No unit is restarted around a change."));

// leases have a button for each that the user may end.
export const leases = ({ list, admin }, release) => table(t("Leases"), [t("Lease"), t("User"), t("Command"), t("Partitions"), t("Since"), t("Until"), unseen(t("Action"))],
    list.map(l => [unit(l.lease), l.user, l.command, names(l.size), when(l.since), l.until ? when(l.until) : t("no limit"),
        admin && el("button", { type: "button", class: pf("button", "secondary"), id: `release-${l.lease}`, "aria-label": t("Release $0", l.lease), onclick: () => release(l.lease) }, t("Release"))]),
    t("There are no leases."));

export const reservations = list => table(t("Reservations"), [t("Reservation"), t("Unit"), t("Partitions"), t("Reason")],
    list.map(r => [r.name, unit(r.unit), r.partitions ? names(r.partitions) : el("span", { class: "dcm-bad" }, t("none")), r.reason]),
    t("There are no reservations."));

// partitions lists all partitions with their holders, for keyboard and touch.
export const partitions = gpus => table(t("Partitions"), [t("GPU"), t("Partition"), t("Mode"), t("Memory"), t("Device node"), t("Holders"), t("Reserved for")],
    gpus.flatMap(g => g.domains.flatMap(d => d.cells.map(c => [g.title, String(c.index), c.mode, c.memory || "-", c.node ? el("code", {}, c.node) : "-", c.who.join(", ") || "-", c.kept.join(", ") || "-"]))),
    t("There are no partitions."));

export const holders = list => table(t("Processes using the GPUs"), [t("Process"), t("Unit"), t("Has open"), unseen(t("Effect"))],
    list.map(h => [el("span", {}, h.command, " ", el("small", {}, String(h.pid))), unit(h.unit), h.devices.join(", ") || "-", h.way ? el("span", { class: "dcm-bad" }, t("blocks the change")) : ""]),
    t("No process has a GPU open."));

export const queue = list => table(t("Queue"), [t("Position"), t("ID"), t("User"), t("Size"), t("Time limit"), t("Waits since"), t("Reason")],
    list.map(q => [String(q.position), String(q.id), q.user, q.size, q.time ? duration(q.time * 1000) : "-", when(q.since), q.reason]),
    t("No request waits for a lease."));

// outcome opens: it has the error of a run, and the steps of the last one.
function outcome(e, run) {
    const steps = run && !run.running && run.id === e.id ? run.steps : [];
    if (!e.error && !steps.length) return e.result;
    return el("details", {}, el("summary", { class: e.error ? "dcm-bad" : "" }, e.result),
        e.error && el("p", { class: "dcm-error" }, e.error),
        e.error && steps.length > 0 && run.hint && el("p", { class: "dcm-error" }, el("b", {}, t("Hint:"), " "), run.hint),
        steps.length > 0 && el("div", { class: "dcm-names" }, drawSteps(steps)));
}

// history has a link to the messages of each run.
export const history = ({ list, run }) => table(t("History"), [t("Start"), t("Duration"), t("Profile"), t("Result"), t("Changed"), t("Cause")],
    list.map(e => [e.id ? link(`/system/logs#/?priority=debug&_SYSTEMD_INVOCATION_ID=${e.id}`, when(e.began)) : when(e.began), e.took || "-", el("span", { class: "dcm-whole" }, e.profile || "-"),
        outcome(e, run), e.changed, e.asked]),
    t("No runs."));
