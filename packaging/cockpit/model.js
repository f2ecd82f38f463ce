// The model of the page, made only from an account, see dcm-account(5). This file is
// independent of Cockpit and the document.

// Each number of parts has its own colour, for all vendors.
const parts = { SPX: 1, DPX: 2, TPX: 3, QPX: 4, CPX: 8 };

// tone is the severity of a state of health, by its code.
export const tone = code => ["good", "warning", "danger"][code] || "unknown";

export function model(account) {
    const health = account.health || {};
    const holders = account.holders || [];
    return {
        health: { state: health.state || "unknown", summary: health.summary || "", tone: health.state === "changing" ? "busy" : tone(health.code) },
        problems: (account.problems || []).map(p => ({ text: p.text, hint: p.hint || "", state: p.state })),
        warnings: account.warnings || [],
        effective: account.profile.in_force,
        selected: account.profile.selected,
        applied: account.profile.applied,
        source: account.profile.source,
        profiles: account.profile.defined || [],
        phase: (account.daemon || {}).phase || "",
        retry: (account.daemon || {}).retry || "",
        busy: health.state === "changing" || (account.last_run || {}).result === "running",
        gpus: (account.gpus || []).map(g => card(g, account)),
        missing: (account.expected || {}).missing || [],
        clients: (account.clients || []).map(client),
        holders: holders.map(holder),
        queue: (account.queue || []).map(queued),
        run: run(account.last_run),
    };
}

export const shape = mode => {
    if (!mode) return "";
    if (mode.slices) return mode.slices.length ? mode.slices.join(" + ") : mode.whole || "whole";
    return mode.whole || [mode.compute, mode.memory].filter(Boolean).join("/");
};

// kind is the class that colours a part.
export function kind(mode) {
    const compute = mode.split("/")[0];
    if (compute in parts) return "parts-" + parts[compute];
    return /^\d+g\./.test(mode) ? "parts-slice" : "parts-other";
}

// now is the mode that the current run last read back, if it differs from the account. Until
// the end of the run the account does not change.
function now(gpu, last) {
    if (!last || last.result !== "running") return null;
    const g = (last.gpus || []).find(g => g.address === gpu.address);
    return g && g.now && g.now.compute && shape(g.now) !== shape(gpu.mode) ? g.now : null;
}

// sketch derives the partitions of a GPU from its mode.
function sketch(mode) {
    const n = parts[mode.compute] || 0, domains = Number(/^NPS(\d+)$/.exec(mode.memory)?.[1] || 1);
    return Array.from({ length: n }, (_, index) => ({
        name: "", index, mode: shape(mode), memory_domain: Math.floor(index * domains / n),
    }));
}

function card(gpu, account) {
    const moved = now(gpu, account.last_run);
    const divided = moved ? sketch(moved) : (account.partitions || []).filter(p => p.gpu === gpu.address);
    const cells = divided.map(p => cell(p, account));
    if (moved) gpu = { ...gpu, mode: moved };
    const mode = shape(gpu.mode), want = shape(gpu.want);
    return {
        address: gpu.address,
        title: gpu.index >= 0 ? `GPU ${gpu.index}` : "GPU",
        model: gpu.model || gpu.name || gpu.driver || "",
        mode,
        want: want && want !== mode && !gpu.skipped ? want : "",
        pending: gpu.pending || "",
        skipped: Boolean(gpu.skipped),
        why: gpu.why || "",
        kind: kind((gpu.mode || {}).compute || ""),
        domains: domains(cells),
        open: open(gpu, account),
        held: cells.filter(c => c.held).length,
        count: cells.length,
    };
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
    const who = by.map(h => `${h.command} (${h.pid})`);
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
        kept: kept.map(r => r.unit || r.name),
        held: by.length > 0,
    };
    c.label = [
        `Partition ${c.index}`, c.mode, c.memory, c.node,
        c.held ? `held by ${who.join(", ")}` : "free",
        c.kept.length ? `reserved for ${c.kept.join(", ")}` : "",
    ].filter(Boolean).join(", ");
    return c;
}

// domains groups the parts of a GPU by their nearest memory.
function domains(cells) {
    const by = new Map();
    for (const c of cells) by.set(c.domain, [...(by.get(c.domain) || []), c]);
    return [...by.keys()].sort((a, b) => a - b).map(index => ({ index, cells: by.get(index) }));
}

function client(c) {
    const state = c.load === "not-found" ? "not installed" : c.sub ? `${c.active} (${c.sub})` : c.active;
    return { unit: c.unit, state, before: c.before || "", back: c.back, result: c.result || "" };
}

function holder(h) {
    return { pid: h.pid, command: h.command, unit: h.unit || "", devices: h.devices, way: Boolean(h.in_the_way) };
}

// queued is a request that waits for a lease.
function queued(q) {
    const n = q.gpus || q.partitions;
    const size = `${n} ${q.gpus ? "GPU" : "partition"}${n === 1 ? "" : "s"}`;
    const kind = q.exclusive ? ", exclusive" : q.share ? `, shared by ${q.share}` : "";
    return { position: q.position, id: q.id, user: q.user, size: size + kind, time: q.time || 0, since: q.since, reason: q.reason };
}

const tenses = {
    memory: ["requesting", "requested"], compute: ["switching to", "switched to"],
    reload: ["reloading the driver", "reloaded the driver"],
};

// run converts the last run; null if there was none.
function run(last) {
    if (!last) return null;
    return {
        profile: last.profile,
        result: last.result,
        running: last.result === "running",
        started: last.started,
        finished: last.finished || "",
        error: last.error ? last.error.text : "",
        hint: last.error ? last.error.hint || "" : "",
        steps: (last.steps || []).map(step),
    };
}

function step(s) {
    const over = Boolean(s.finished) && !/^0001/.test(s.finished);
    const words = (tenses[s.kind] || [s.kind, s.kind])[over ? 1 : 0];
    const what = s.kind === "reload" ? words : `${words} ${s.to || (s.mig || []).join(" + ")}`;
    const where = s.hive && s.hive.length > 1 ? `${s.hive.length} GPUs` : s.gpu || "";
    return { text: [where, what].filter(Boolean).join(": ") + (s.undo ? " (rollback)" : ""), over, error: s.error || "" };
}

export function bytes(n) {
    if (!n) return "";
    const gib = n / 2 ** 30;
    return gib >= 1 ? `${Math.round(gib * 10) / 10} GiB` : `${Math.round(n / 2 ** 20)} MiB`;
}
