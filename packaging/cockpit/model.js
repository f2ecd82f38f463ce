// The model of the page, made only from an account, see dcm-account(5). This file is
// independent of Cockpit and the document.

// Each number of parts has its own colour, for all vendors.
const parts = { SPX: 1, DPX: 2, TPX: 3, QPX: 4, CPX: 8 };

// tone is the severity of a state of health, by its code.
export const tone = code => ["good", "warning", "danger"][code] || "unknown";

export function model(account) {
    const health = account.health || {};
    const busy = health.state === "changing" || (account.last_run || {}).result === "running";
    return {
        health: { state: health.state || "unknown", summary: health.summary || "", tone: health.state === "changing" ? "busy" : tone(health.code) },
        problems: (account.problems || []).map(p => ({ text: p.text, hint: p.hint || "", state: p.state })),
        warnings: account.warnings || [],
        selected: account.profile.selected,
        applied: busy ? "" : account.profile.applied, // the account has it from the begin of a run
        source: account.profile.source,
        profiles: account.profile.defined || [],
        phase: (account.daemon || {}).phase || "",
        retry: (account.daemon || {}).retry || "",
        busy,
        gpus: cards(account),
        empty: !(account.gpus || []).some(g => !g.why) && !((account.expected || {}).missing || []).length,
        clients: (account.clients || []).map(c => client(c, busy)),
        holders: (account.holders || []).map(holder),
        leases: (account.leases || []).map(lease),
        queue: (account.queue || []).map(queued),
        run: run(account.last_run),
    };
}

export const shape = mode => {
    if (!mode) return "";
    if (mode.slices) return mode.slices.length ? together(mode.slices) : mode.whole || "whole";
    return mode.whole || [mode.compute, mode.memory].filter(Boolean).join("/");
};

// together joins equal neighbours: "3g.40gb + 4 × 1g.10gb".
function together(slices) {
    const joined = [];
    for (const name of slices) {
        if (joined.at(-1)?.name === name) joined.at(-1).n++;
        else joined.push({ name, n: 1 });
    }
    return joined.map(({ name, n }) => (n > 1 ? `${n} × ${name}` : name)).join(" + ");
}

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
    return g && shape(g.now) ? g : null;
}

// sketch derives the partitions of a GPU from its mode.
function sketch(mode) {
    if (mode.slices) return mode.slices.map((name, index) => ({ name: "", index, mode: name }));
    const n = parts[mode.compute] || 0, domains = Number(/^NPS(\d+)$/.exec(mode.memory)?.[1] || 1);
    return Array.from({ length: n }, (_, index) => ({
        name: "", index, mode: shape(mode), memory_domain: Math.floor(index * domains / n),
    }));
}

// cards are the GPUs. A missing GPU keeps its place and number. With two vendors the titles have them.
function cards(account) {
    const gpus = [...(account.gpus || [])];
    for (const lost of (account.expected || {}).lost || []) {
        const after = gpus.findIndex(g => lost.index >= 0 && g.vendor === lost.vendor && g.index > lost.index);
        gpus.splice(after < 0 ? gpus.length : after, 0, { ...lost, lost: true });
    }
    const vendors = new Set(gpus.filter(g => g.index >= 0).map(g => g.vendor));
    const title = g => [vendors.size > 1 && g.vendor ? g.vendor.toUpperCase() : "GPU", g.index >= 0 ? g.index : ""].join(" ").trim();
    return gpus.map(g => ({ title: title(g), ...card(g, account) }));
}

function card(gpu, account) {
    const running = moving(gpu, account.last_run);
    const moved = running && shape(running.now) !== shape(gpu.mode);
    const divided = moved ? sketch(running.now) : (account.partitions || []).filter(p => p.gpu === gpu.address);
    const cells = divided.map(p => cell(p, account));
    if (running) gpu = { ...gpu, mode: running.now, want: running.want };
    const mode = shape(gpu.mode), want = shape(gpu.want);
    return {
        address: gpu.address,
        lost: Boolean(gpu.lost),
        since: gpu.since || "",
        reloading: reloading(account.last_run),
        left: Boolean(gpu.left),
        error: failed(gpu, account.last_run),
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

// reloading reports whether a run reloads the driver now.
const reloading = last => Boolean(last) && last.result === "running" && (last.steps || []).some(s => s.kind === "reload" && happened(s.started) && !happened(s.finished));

// failed is why the last run could not change a GPU.
function failed(gpu, last) {
    const g = last && last.result !== "applied" && (last.gpus || []).find(g => g.address === gpu.address);
    return (g && g.error) || "";
}

const happened = time => Boolean(time) && !/^0001/.test(time);

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
    const who = [...leased.map(l => `${l.user}: ${l.command} (${l.lease})`), ...by.filter(h => !leased.some(l => l.lease === h.unit)).map(h => `${h.command} (${h.pid})`)];
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
        held: who.length > 0,
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

// client is a unit that is restarted around a change. During the change it is stopped on purpose.
function client(c, busy) {
    const state = c.load === "not-found" ? "not installed" : c.sub ? `${c.active} (${c.sub})` : c.active;
    const stopped = busy && !c.back && c.load !== "not-found";
    return { unit: c.unit, state: stopped ? "stopped for the change" : state, before: c.before || "", back: c.back, stopped, result: c.result || "" };
}

function lease(l) {
    const kind = l.exclusive ? ", exclusive" : l.share ? `, shared by ${l.share}` : "";
    return { lease: l.lease, user: l.user, command: l.command, size: (l.partitions || []).join(", ") + kind, since: l.since, until: l.until || "" };
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

// Each step before, during and after it, and if it failed. The GPU stands before it, the mode after it.
const tenses = {
    memory: ["request", "requesting", "requested", "could not request"],
    compute: ["switch to", "switching to", "switched to", "could not be switched to"],
    reload: ["reload the driver", "reloading the driver", "reloaded the driver", "could not reload the driver"],
    "mig-clear": ["destroy instances", "destroying instances", "destroyed instances", "could not destroy instances"],
    "mig-mode": ["set", "setting", "set", "could not set"],
    "mig-fill": ["create", "creating", "created", "could not create"],
};

// run converts the last run; null if there was none.
function run(last) {
    if (!last) return null;
    const steps = (last.steps || []).map(step);
    return {
        done: steps.filter(s => s.over).length,
        profile: last.profile,
        result: last.result,
        running: last.result === "running",
        started: last.started,
        finished: last.finished || "",
        error: last.error ? last.error.text : "",
        hint: last.error ? last.error.hint || "" : "",
        steps,
    };
}

function step(s) {
    const over = happened(s.finished), begun = happened(s.started) || over;
    const words = (tenses[s.kind] || Array(4).fill(s.kind))[s.error ? 3 : over ? 2 : begun ? 1 : 0];
    const what = s.kind === "reload" || s.kind === "mig-clear" ? words : `${words} ${s.to || together(s.mig || [])}`;
    const where = s.hive && s.hive.length > 1 ? `${s.hive.length} GPUs` : s.gpu || "";
    const took = over && happened(s.started) ? Date.parse(s.finished) - Date.parse(s.started) : null;
    return { text: (s.undo ? "undo: " : "") + [where, what].filter(Boolean).join(": "), begun, over, took, error: s.error || "" };
}

export function bytes(n) {
    if (!n) return "";
    const gib = n / 2 ** 30;
    return gib >= 1 ? `${Math.round(gib * 10) / 10} GiB` : `${Math.round(n / 2 ** 20)} MiB`;
}
