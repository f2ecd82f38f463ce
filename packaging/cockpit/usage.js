// The use of the partitions, made only from results of Usage(), see dcm-account(5) and dcm top in
// dcm(1). This file is independent of Cockpit and the document.

import { bytes } from "./model.js";
import { t } from "./text.js";

// uses returns the use of each partition by its name. Some drivers only report counters: then a
// partition's busy percentage is their difference to the previous result, as in dcm top.
export function uses(usage, before) {
    const was = new Map((before?.partitions || []).map(p => [p.name, p]));
    return new Map((usage.partitions || []).map(p => [p.name, { ...use(p, was.get(p.name)), processes: p.processes || [], holders: p.holders || [] }]));
}

function use(p, was) {
    const known = typeof p.memory_used_bytes === "number";
    const busy = p.busy_percent ?? between(p, was);
    const unknown = p.unknown || {};
    return {
        used: known ? p.memory_used_bytes : null,
        size: p.memory_bytes || 0,
        busy,
        memory: known ? t("$0 used", amount(p.memory_used_bytes, p.memory_bytes)) : t("unknown: $0", unknown.memory_used_bytes || t("not reported")),
        load: busy !== null ? `${Math.round(busy)} %` : t("unknown: $0", unknown.busy_percent || t("not reported")),
    };
}

// between is the mean use since the previous result; null if it is unknown. The counters restart with
// a load of the driver.
function between(p, was) {
    if (!was || was.mode !== p.mode || !(p.busy_cycles > was.busy_cycles) || p.busy_sum < was.busy_sum) return null;
    const busy = (p.busy_sum - was.busy_sum) / (p.busy_cycles - was.busy_cycles);
    return busy <= 100 ? busy : null;
}

export const amount = (used, size) => (size ? t("$0 of $1", bytes(used) || "0 MiB", bytes(size)) : bytes(used) || "0 MiB");

// short is the use in a few words: "12.5 GiB of 24 GiB used, 70 % busy"; "" if nothing is known.
export function short({ used, size, busy }) {
    return [used !== null && t("$0 used", amount(used, size)), busy !== null && t("$0 % busy", Math.round(busy))].filter(Boolean).join(", ");
}

// total is the use of several partitions: the sum of the memory, and the mean of the known busy values.
export function total(list) {
    const busy = list.map(u => u.busy).filter(b => b !== null);
    return {
        used: list.length && list.every(u => u.used !== null) ? list.reduce((sum, u) => sum + u.used, 0) : null,
        size: list.reduce((sum, u) => sum + u.size, 0),
        busy: busy.length ? busy.reduce((sum, b) => sum + b, 0) / busy.length : null,
    };
}

// differs describes how the measured holders and the queue differ from those of the account; "" if they do not. dcm
// sends no signal when a process opens a device, or a request waits.
export function differs({ gpus, holders, queue }, uses, queued) {
    const known = new Set(holders.map(h => h.pid)), sorted = list => [...list].sort().join();
    const parts = gpus.flatMap(g => g.domains.flatMap(d => d.cells)).map(c => ({ ...c, use: uses.get(c.name) })).filter(c => c.use);
    const other = parts.filter(c => sorted(c.holders) !== sorted(c.use.holders) || c.use.processes.some(p => !known.has(p.pid)))
        .map(c => [c.name, sorted(c.holders), sorted(c.use.holders), sorted(c.use.processes.map(p => p.pid))]);
    const [was, is] = [queue, queued].map(list => list.map(q => q.id).join());
    return other.length || was !== is ? JSON.stringify([other, was, is]) : "";
}
