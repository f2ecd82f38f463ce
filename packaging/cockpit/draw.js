// The parts of the page, drawn from the results of model.js and words.js.

import { el, table } from "./dom.js";
import { count, duration } from "./words.js";

const marks = { good: "✓", warning: "!", danger: "✕", unknown: "?", busy: "…" };

// notice draws a reason with its hint.
export function notice(tone, reason, hint, role) {
    return el("div", { class: `dcm-notice ${tone}`, role },
        el("span", { class: "dcm-mark", "aria-hidden": "true" }, marks[tone]),
        el("div", {},
            reason.split("\n").map(line => el("p", { class: "dcm-reason" }, line)),
            hint && el("p", { class: "dcm-hint" }, el("b", {}, "Hint: "), hint)));
}

const unit = name => name && el("a", { href: "#", "data-jump": `/system/services#/${encodeURIComponent(name)}` }, el("code", {}, name));

export function health({ health, problems, warnings, busy, selected, applied, source }) {
    const cause = el("p", { class: "dcm-note" }, selected ? `Selected: ${selected}${source && ` (${source})`}.` : "No profile is selected.",
        selected && !busy && (applied === selected ? " It is on the GPUs." : " It is not on the GPUs."));
    const state = el("div", { class: `dcm-notice ${health.tone}` },
        el("span", { class: "dcm-mark", "aria-hidden": "true" }, marks[health.tone]),
        el("div", {}, el("p", { class: "dcm-verdict", id: "verdict" }, health.summary || health.state), cause));
    return [
        state,
        ...problems.map(p => notice(health.tone === "danger" ? "danger" : "warning", p.text, p.hint)),
        ...warnings.map(w => notice("warning", w, "")),
    ];
}

export function run(r) {
    if (!r || !r.running) return [];
    return [el("div", { class: "dcm-run" },
        el("h2", {}, `Applying ${r.profile}`),
        el("progress", { "aria-label": `Applying ${r.profile}`, value: r.steps.length ? String(r.done) : null, max: r.steps.length ? String(r.steps.length) : null }),
        r.steps.length > 0 && el("p", { class: "dcm-note" }, `${r.done} of ${count(r.steps.length, "step")}`),
        el("ol", { class: "dcm-steps" }, r.steps.map(s => el("li", { class: s.error ? "bad" : s.over ? "over" : s.begun ? "now" : "" },
            s.text, s.took !== null && el("small", {}, " ", duration(s.took)), s.error && `: ${s.error}`))))];
}

export function legend(gpus) {
    const cells = gpus.flatMap(g => g.domains.flatMap(d => d.cells));
    const kinds = new Map(cells.map(c => [c.kind, c.mode]));
    const key = (kind, text) => el("li", {}, el("span", { class: `dcm-key ${kind}`, "aria-hidden": "true" }), text);
    return [
        ...[...kinds].map(([kind, mode]) => key(kind, kind === "parts-slice" ? "slice" : mode)),
        key("free", "free"), key("free held", "held"),
        cells.some(c => c.kept.length) && key("free kept", "reserved"),
    ];
}

export function gpu(g) {
    const moving = g.want || g.pending;
    return el("li", { class: `dcm-card ${g.why || g.reloading ? "alone" : ""} ${g.lost || g.error ? "bad" : moving ? "moving" : ""}`, "data-address": g.address, "data-mode": g.mode },
        el("div", { class: "dcm-card-top" },
            el("h3", {}, g.title, el("small", {}, g.model)),
            g.mode && g.kind !== "parts-other" && el("span", { class: `dcm-mode ${g.kind}` }, g.mode)),
        el("code", { class: "dcm-address" }, g.address),
        g.mode && g.kind === "parts-other" && el("p", { class: "dcm-mode parts-other", title: g.mode }, g.mode),
        picture(g),
        el("p", { class: "dcm-card-foot" }, foot(g)));
}

function foot(g) {
    if (g.lost) return g.since ? ["missing since ", when(g.since)] : "missing";
    if (g.why) return `not managed: ${g.why}`;
    if (g.reloading) return "the driver is being reloaded";
    if (g.error) return el("span", { class: "dcm-bad", title: g.error }, "could not be changed");
    if (g.want) return `to be ${g.want}` + (g.left ? ", when its holders have ended" : "");
    if (g.pending) return `${g.pending} takes effect when the driver is loaded next`;
    const free = g.count - g.held;
    return `${count(g.count, "partition")}, ${free === g.count ? "all free" : free ? `${free} free` : "all held"}` + (g.open.length ? `, ${g.open.join(", ")} open` : "") + (g.skipped ? ", skipped by the profile" : "");
}

function picture(g) {
    if (!g.domains.length) return el("div", { class: "dcm-silicon empty", role: "img", "aria-label": g.lost ? "missing" : "not partitioned" });
    return el("ul", { class: "dcm-silicon", "aria-label": `Partitions of ${g.title}` }, g.domains.map(d =>
        el("li", { class: "dcm-domain", "aria-label": g.domains.length > 1 ? `Memory domain ${d.index}` : null },
            el("ul", { class: "dcm-cells" }, d.cells.map(cell)))));
}

function cell(c) {
    const out = el("li", { class: `dcm-cell ${c.kind} ${c.held ? "held" : "free"} ${c.kept.length ? "kept" : ""}`, title: c.label },
        el("span", { "aria-hidden": "true" }, String(c.index)), el("span", { class: "dcm-unseen" }, c.label));
    if (c.share) out.style.flexGrow = String(Math.round(c.share * 1000));
    return out;
}

// profiles are radio buttons, so that the arrow keys move between them.
export function profiles({ names, selected, applied }, chosen, choose) {
    return names.map((name, i) => el("div", { class: "dcm-profile" },
        el("input", {
            type: "radio", name: "profile", id: `profile-${i}`, value: name, "aria-describedby": `fit-${i}`,
            checked: name === chosen, onchange: () => choose(name),
        }),
        el("label", { for: `profile-${i}` }, name, name === selected && el("span", { class: `dcm-tag selected${applied === name ? "" : " waits"}` }, "selected"), name === applied && el("span", { class: "dcm-tag" }, "on the GPUs")),
        el("span", { id: `fit-${i}`, class: "dcm-note" })));
}

// fitting writes next to each profile what it would change, or why it does not fit. It does
// not redraw the buttons, since the user may be clicking one.
export function fitting(names, fits) {
    names.forEach((name, i) => {
        const fit = fits[name], place = document.getElementById(`fit-${i}`);
        if (!place) return;
        place.textContent = !fit ? "…" : fit.refused ? "not supported by this node" : fit.words;
        place.title = (fit && fit.refused) || "";
        place.parentElement.classList.toggle("unfit", Boolean(fit && fit.refused));
    });
}

// plan draws the plan of the chosen profile and the button that applies it.
export function plan({ chosen, plan, refused, busy, admin, selected, failed }, apply) {
    if (!chosen) return [el("p", { class: "dcm-note" }, "Choose a profile to see its plan.")];
    const out = [el("h2", {}, `Plan for ${chosen}`)];
    if (refused) return [...out, notice("danger", refused.reason, refused.hint, "alert")];
    if (!plan) return [...out, el("p", { class: "dcm-note" }, "Planning ...")];
    out.push(plan.steps.length
        ? el("ol", { class: "dcm-steps", id: "steps" }, plan.steps.map(s => el("li", {}, s)))
        : el("p", { id: "steps" }, "The GPUs need no change."));
    if (plan.restarts.length) out.push(
        el("p", {}, el("b", {}, count(plan.restarts.length, "unit"), " would be restarted:")),
        el("ul", { class: "dcm-units", id: "restarts" }, plan.restarts.map(u => el("li", {}, el("code", {}, u)))));
    else if (plan.steps.length) out.push(el("p", { id: "restarts" }, "No unit would be restarted."));
    if (failed) out.push(notice("danger", failed.reason, failed.hint, "alert"));
    const idle = !plan.steps.length && chosen === selected;
    out.push(
        el("button", {
            // Not disabled, since a disabled button loses the focus.
            id: "apply", type: "button", class: "dcm-button primary", "aria-disabled": !admin || busy || idle ? "true" : null,
            "aria-describedby": "apply-why", onclick: () => admin && !busy && !idle && apply(),
        }, busy ? "Applying ..." : `Apply ${chosen}`),
        el("p", { id: "apply-why", class: "dcm-note" }, admin ? (idle ? "This profile is on the GPUs." : "") : "Read-only: this needs administrative access."));
    return out;
}

const when = iso => el("time", { datetime: iso }, new Date(iso).toLocaleString());

export const clients = list => table("Clients", ["Unit", "State", "Before the last restart", "Restored"],
    list.map(c => [unit(c.unit), c.state, c.before || "-", c.stopped ? "-" : el("span", { class: c.back ? "" : "dcm-bad" }, c.back ? "yes" : "no")]),
    "There are no clients: no unit is restarted around a change.");

// leases have a button for each that the user may end.
export const leases = ({ list, admin }, release) => table("Leases", ["Lease", "User", "Command", "Partitions", "Since", "Until", el("span", { class: "dcm-unseen" }, "Action")],
    list.map(l => [unit(l.lease), l.user, l.command, l.size, when(l.since), l.until ? when(l.until) : "no limit",
        admin && el("button", { type: "button", class: "dcm-button", id: `release-${l.lease}`, "aria-label": `Release ${l.lease}`, onclick: () => release(l.lease) }, "Release")]),
    "There are no leases.");

// partitions lists all partitions with their holders, for keyboard and touch.
export const partitions = gpus => table("Partitions", ["GPU", "Partition", "Mode", "Memory", "Device node", "Holders", "Reserved for"],
    gpus.flatMap(g => g.domains.flatMap(d => d.cells.map(c => [g.title, String(c.index), c.mode, c.memory || "-", c.node ? el("code", {}, c.node) : "-", c.who.join(", ") || "-", c.kept.join(", ") || "-"]))),
    "There are no partitions.");

export const holders = list => table("Holders", ["Process", "Unit", "Has open", el("span", { class: "dcm-unseen" }, "Effect")],
    list.map(h => [el("span", {}, h.command, " ", el("small", {}, String(h.pid))), h.unit ? unit(h.unit) : "-", h.devices.join(", "), h.way ? el("span", { class: "dcm-bad" }, "blocks the change") : ""]),
    "No process has a GPU open.");

export const queue = list => table("Queue", ["Position", "ID", "User", "Size", "Time limit", "Waits since", "Reason"],
    list.map(q => [String(q.position), String(q.id), q.user, q.size, q.time ? duration(q.time * 1000) : "-", when(q.since), q.reason]),
    "No request waits for a lease.");

export const history = list => table("History", ["Start", "Duration", "Profile", "Result", "Changed", "Cause"],
    list.map(e => [e.id ? el("a", { href: "#", "data-jump": `/system/logs#/?priority=debug&_SYSTEMD_INVOCATION_ID=${e.id}` }, when(e.began)) : when(e.began), e.took || "-", e.profile || "-", el("span", { class: e.error ? "dcm-bad" : "", title: e.error || null }, e.result), e.changed, e.asked]),
    "No runs.");

