// The model of the page, made only from an account, see dcm-account(5). This file is
// independent of Cockpit and the document.

import { geometry, happened, run, together } from "./run.js";
import { joined, n, t } from "./text.js";

// Each number of parts has its own colour, for all vendors.
const parts = { SPX: 1, DPX: 2, TPX: 3, QPX: 4, CPX: 8 };

// A change, and a host whose GPUs are left alone, are neither good nor bad.
const tones = { changing: "busy", idle: "idle" };

// tone is the severity of a state of health, by its code.
export const tone = code => ["good", "warning", "danger"][code] || "unknown";

export function model(account) {
    const health = account.health || {};
    const busy = health.state === "changing" || (account.last_run || {}).result === "running";
    const gpus = cards(account), clients = (account.clients || []).map(c => client(c, busy));
    return {
        health: { state: health.state || "unknown", summary: health.summary || "", tone: tones[health.state] || tone(health.code) },
        problems: (account.problems || []).map(p => ({ text: p.text, hint: p.hint || "", state: p.state })),
        warnings: account.warnings || [],
        selected: account.profile.in_force ?? account.profile.selected, // while the files have an error, the last good selection
        applied: busy ? "" : account.profile.applied, // the account has it from the begin of a run
        source: account.profile.source,
        untilReboot: Boolean(account.profile.until_reboot),
        lasting: account.profile.lasting || "",
        broken: account.profile.broken || "",
        profiles: account.profile.defined || [],
        phase: (account.daemon || {}).phase || "",
        retry: (account.daemon || {}).retry || "",
        busy,
        gpus,
        free: gpus.flatMap(g => g.domains.flatMap(d => d.cells)).filter(c => c.name && !c.held && !c.kept.length).length,
        missing: gpus.some(g => g.lost),
        empty: !(account.gpus || []).some(g => !g.why) && !((account.expected || {}).missing || []).length,
        clients,
        holders: (account.holders || []).map(holder),
        leases: (account.leases || []).map(lease),
        reservations: (account.reservations || []).map(reservation),
        queue: (account.queue || []).map(queued),
        run: run(account, clients.some(c => c.stopped)),
    };
}

export const shape = mode => {
    if (!mode) return "";
    if (mode.mig) return shape(geometry(mode.mig)); // of a report
    if (mode.slices) return mode.slices.length ? together(mode.slices) : mode.whole || "whole";
    return mode.whole || [mode.compute, mode.memory].filter(Boolean).join("/");
};

// label is the shape with the settings that are not the driver's default.
export const label = mode => [shape(mode), mode?.memory_allocation === "all" && t("(memory all)"), mode?.isolation === "on" && t("(isolated)")].filter(Boolean).join(" ");

// kind is the class that colours a part.
export function kind(mode) {
    const compute = mode.split("/")[0];
    if (compute in parts) return "parts-" + parts[compute];
    return /^\d+g\./.test(mode) ? "parts-slice" : "parts-other";
}

// moving is the GPU in the report of the current run: the mode that was last read back, and the one that
// the run is to set. Until the end of the run the GPUs of the account do not change.
function moving(gpu, last) {
    const g = last && last.result === "running" && (last.gpus || []).find(g => g.address === gpu.address);
    const form = mode => (mode?.mig ? geometry(mode.mig) : mode); // a report has MIG as text
    return g && shape(g.now) ? { now: form(g.now), want: form(g.want) } : null;
}

// sketch derives the partitions of a GPU from its mode.
function sketch(mode) {
    if (mode.slices) return mode.slices.map((name, index) => ({ name: "", index, mode: name }));
    const n = mode.whole === "MIG off" ? 1 : parts[mode.compute] || 0, domains = Number(/^NPS(\d+)$/.exec(mode.memory)?.[1] || 1);
    return Array.from({ length: n }, (_, index) => ({
        name: "", index, mode: shape(mode), memory_domain: Math.floor(index * domains / n),
    }));
}

// planned derives the domains with the partitions of a GPU from the text of a mode: "CPX/NPS4", "3g.40gb, 2 × 2g.20gb".
export function planned(mode) {
    const [compute, memory] = mode.split("/");
    const slices = mode.split(", ").flatMap(one => {
        const [, times, name] = /^(?:(\d+) × )?(\d+[gc]\..*)$/.exec(one) || [];
        return name ? Array(Number(times || 1)).fill(name) : [];
    });
    const parts = sketch(slices.length ? { slices } : { compute, memory });
    return domains(parts.map(p => ({ index: p.index, kind: kind(p.mode), domain: p.memory_domain || 0 })));
}

// cards are the GPUs. A missing GPU keeps its place and number. With two vendors the titles have them.
function cards(account) {
    const gpus = [...(account.gpus || [])];
    for (const lost of (account.expected || {}).lost || []) {
        const after = gpus.findIndex(g => lost.index >= 0 && g.vendor === lost.vendor && g.index > lost.index);
        gpus.splice(after < 0 ? gpus.length : after, 0, { ...lost, lost: true });
    }
    const vendors = new Set(gpus.filter(g => g.index >= 0).map(g => g.vendor));
    const title = g => [vendors.size > 1 && g.vendor ? g.vendor.toUpperCase() : t("GPU"), g.index >= 0 ? g.index : ""].join(" ").trim();
    return gpus.map(g => ({ title: title(g), ...card(g, account) }));
}

function card(gpu, account) {
    const running = moving(gpu, account.last_run);
    const moved = running && shape(running.now) !== shape(gpu.mode);
    const divided = moved ? sketch(running.now) : (account.partitions || []).filter(p => p.gpu === gpu.address);
    const cells = divided.map(p => cell(p, account));
    if (running) gpu = { ...gpu, mode: running.now, want: running.want };
    const mode = label(gpu.mode), want = label(gpu.want);
    return {
        address: gpu.address,
        lost: Boolean(gpu.lost),
        since: gpu.since || "",
        reloading: reloading(account.last_run),
        left: Boolean(gpu.left),
        error: failed(gpu, account),
        model: gpu.model || gpu.name || gpu.driver || "",
        mode,
        want: want && want !== mode && !gpu.skipped ? want : "",
        pending: gpu.pending || "",
        skipped: Boolean(gpu.skipped),
        why: gpu.why || "",
        kind: (gpu.mode || {}).slices?.length ? "parts-slice" : kind((gpu.mode || {}).compute || ""),
        domains: domains(cells),
        open: open(gpu, account),
        held: cells.filter(c => c.held).length,
        count: cells.length,
    };
}

// reloading reports whether a run reloads the driver now.
const reloading = last => Boolean(last) && last.result === "running" && (last.steps || []).some(s => s.kind === "reload" && happened(s.started) && !happened(s.finished));

// failed is why the last run could not change a GPU. It is history when the selected profile is on the GPUs, or is
// another one than that of the run.
function failed(gpu, { last_run: last, profile }) {
    const g = last && last.result !== "applied" && !profile.applied && last.profile === profile.in_force && (last.gpus || []).find(g => g.address === gpu.address);
    return (g && g.error) || "";
}

// open are the devices of a GPU's driver that a process without a partition has open. The
// partitions stay free, but the partitioning cannot change.
function open(gpu, account) {
    const nodes = new Set((account.partitions || []).flatMap(p => [p.render_node, p.card]));
    const loose = (account.holders || []).filter(h => !h.devices.some(d => nodes.has(d))).flatMap(h => h.devices);
    const ours = d => d.startsWith("/dev/nvidia") === (gpu.vendor === "nvidia");
    return nodes.size ? [...new Set(loose.filter(ours))] : [];
}

function cell(part, account) {
    const by = (account.holders || []).filter(h => part.name && (h.devices.includes(part.render_node) || h.devices.includes(part.card)));
    const kept = (account.reservations || []).filter(r => (r.partitions || []).includes(part.name));
    const leased = (account.leases || []).filter(l => part.name && (l.partitions || []).includes(part.name));
    // PID 1 has the units that hold a partition, also of services that have not opened it.
    const units = (part.holders || []).filter(name => !/^reservation |\[\d+\]$/.test(name) && !leased.some(l => l.lease === name));
    const who = [
        ...leased.map(l => `${l.user}: ${l.command} (${l.lease})`), ...units,
        ...by.filter(h => !units.includes(h.unit) && !leased.some(l => l.lease === h.unit)).map(h => `${h.command} (${h.pid})`),
    ];
    const c = {
        name: part.name,
        index: part.index,
        mode: part.mode,
        kind: kind(part.mode),
        domain: part.memory_domain || 0,
        share: part.memory_share || part.compute_share || 0,
        memory: bytes(part.memory_bytes),
        node: part.render_node,
        who,
        holders: part.holders || [],
        units: units.map(unit => ({ unit, since: part.holders_since?.[unit] || "" })),
        kept: kept.map(r => r.unit || r.name),
        held: who.length > 0,
    };
    c.label = [
        t("Partition $0", c.index), c.mode, c.memory, c.node,
        c.held ? t("held by $0", who.join(", ")) : t("free"),
        c.kept.length ? t("reserved for $0", c.kept.join(", ")) : "",
    ].filter(Boolean).join(", ");
    return c;
}

// domains groups the parts of a GPU by their nearest memory.
function domains(cells) {
    const by = new Map();
    for (const c of cells) by.set(c.domain, [...(by.get(c.domain) || []), c]);
    return [...by.keys()].sort((a, b) => a - b).map(index => ({ index, cells: by.get(index) }));
}

// client is a unit that is restarted around a change. During the change it is stopped on purpose.
function client(c, busy) {
    const state = c.load === "not-found" ? t("not installed") : c.sub ? `${c.active} (${c.sub})` : c.active;
    const stopped = busy && !c.back && c.load !== "not-found";
    return { unit: c.unit, state: stopped ? t("stopped for the change") : state, back: c.back, idle: c.before !== "active" && c.active !== "active", stopped, result: c.result || "", ended: Boolean(c.ended) };
}

const sharing = l => (l.exclusive ? t("exclusive") : l.share ? t("shared by $0", l.share) : "");

function lease(l) {
    return { lease: l.lease, user: l.user, command: l.command, partitions: l.partitions || [], size: [...joined(l.partitions || []), sharing(l)].filter(Boolean).join(", "), since: l.since, until: l.until || "" };
}

function reservation(r) {
    return { name: r.name, unit: r.unit || "", partitions: (r.partitions || []).length ? [...joined(r.partitions), sharing(r)].filter(Boolean).join(", ") : "", reason: r.reason || "" };
}

function holder(h) {
    return { pid: h.pid, command: h.command, unit: h.unit || "", devices: h.devices, way: Boolean(h.in_the_way) };
}

// queued is a request that waits for a lease.
function queued(q) {
    const size = q.gpus ? n("$0 GPU", "$0 GPUs", q.gpus) : n("$0 partition", "$0 partitions", q.partitions);
    return { position: q.position, id: q.id, user: q.user, size: [size, sharing(q)].filter(Boolean).join(", "), time: q.time || 0, since: q.since, reason: q.reason };
}

export function bytes(n) {
    if (!n) return "";
    const gib = n / 2 ** 30;
    return gib >= 1 ? `${Math.round(gib * 10) / 10} GiB` : `${Math.round(n / 2 ** 20)} MiB`;
}
