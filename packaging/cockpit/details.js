// The popover with the holders and the use of one partition. A click, a touch and the keyboard open it.

import { el, pf, redraw } from "./dom.js";
import { bytes } from "./model.js";
import { unit, when } from "./tables.js";
import { t } from "./text.js";

const place = () => document.getElementById("part");
let shown = ""; // the name of the partition; "" while the popover is closed

export function follow(window) {
    place().addEventListener("toggle", event => {
        if (event.newState !== "closed") return;
        const cell = document.getElementById(`cell-${shown}`); // it may have been drawn again
        if (document.activeElement === document.body) cell?.focus();
        shown = "";
    });
    window.addEventListener("resize", () => shown && put());
}

export function open(name, state) {
    shown = name;
    update(state);
    place().showPopover();
    put();
    place().focus();
}

// update draws the open popover again. It closes when its partition is gone.
export function update({ now, uses }) {
    if (!shown) return;
    for (const gpu of now.gpus) {
        const cell = gpu.domains.flatMap(d => d.cells).find(c => c.name === shown);
        if (cell) return redraw(place(), { title: gpu.title, cell, use: uses.get(shown), leases: now.leases.filter(l => l.partitions.includes(shown)), holders: now.holders }, content);
    }
    place().hidePopover();
}

// put places the popover below its cell, or above it, within the window.
function put() {
    const at = document.getElementById(`cell-${shown}`)?.getBoundingClientRect(), box = place().getBoundingClientRect(), gap = 8;
    if (!at) return;
    const width = document.documentElement.clientWidth;
    const left = Math.max(gap, Math.min(at.left + at.width / 2 - box.width / 2, width - box.width - gap));
    const below = at.bottom + gap + box.height <= window.innerHeight || at.top < box.height + gap;
    place().style.left = `${left + window.scrollX}px`;
    place().style.top = `${(below ? at.bottom + gap : at.top - box.height - gap) + window.scrollY}px`;
}

function content({ title, cell, use, leases, holders }) {
    return [
        el("h2", { id: "part-title" }, t("$0, partition $1", title, cell.index)),
        el("dl", { class: pf("description-list") }, facts(cell, use, leases, holders).filter(Boolean).flatMap(([name, ...value]) => [el("dt", {}, name), el("dd", {}, value)])),
        el("button", { type: "button", id: "part-close", class: pf("button", "secondary"), popovertarget: "part", popovertargetaction: "hide" }, t("Close")),
    ];
}

function sentence(parts) {
    const text = parts.filter(Boolean).join(", ");
    return text ? [el("p", {}, text)] : [];
}

const since = (start, ...more) => start && el("p", {}, t("since"), " ", when(start), ...more);

function facts(cell, use, leases, holders) {
    const open = holders.filter(h => h.devices.includes(cell.node));
    const processes = use ? use.processes : open.map(h => ({ ...h, user: "", memory_bytes: null }));
    return [
        [t("Mode"), cell.mode],
        [t("Memory"), use ? use.memory : cell.memory || "-"],
        use && [t("Busy"), use.load],
        cell.node && [t("Device node"), el("code", {}, cell.node)],
        ...leases.map(l => [t("Lease"), unit(l.lease), el("p", {}, t("$0 of user $1", l.command, l.user)),
            since(l.since, l.until && [", ", t("until"), " ", when(l.until)])]),
        ...cell.units.map(u => [t("Unit"), unit(u.unit), since(u.since)]),
        ...processes.map(p => [t("Process"), `${p.command || "?"} `, el("small", {}, t("PID $0", p.pid)), ...sentence([p.user && t("user $0", p.user), p.memory_bytes && bytes(p.memory_bytes)]), since(p.since),
            p.unit && ![...leases.map(l => l.lease), ...cell.units.map(u => u.unit)].includes(p.unit) && el("p", {}, unit(p.unit))]),
        !leases.length && !processes.length && !cell.units.length && [t("Holders"), cell.held ? cell.who.join(", ") : t("none")],
        ...cell.kept.map(k => [t("Reserved for"), k.includes(".") ? unit(k) : k]),
    ];
}
