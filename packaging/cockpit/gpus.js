// The GPUs and their partitions.

import { el, pf } from "./dom.js";
import { n, t, time } from "./text.js";
import { short, total } from "./usage.js";

export function legend({ gpus, measured }) {
    const cells = gpus.flatMap(g => g.domains.flatMap(d => d.cells));
    const kinds = new Map(cells.map(c => [c.kind, c.mode]));
    const key = (kind, text) => el("li", {}, el("span", { class: `dcm-key ${kind}`, "aria-hidden": "true" }), text);
    if (!cells.length) return [];
    return [
        ...[...kinds].map(([kind, mode]) => key(kind, kind === "parts-slice" ? t("MIG instance") : mode)),
        key("free", t("free")), key("free held", t("held")),
        cells.some(c => c.kept.length) && key("free kept", t("reserved")),
        measured && el("li", {}, el("span", { class: "dcm-key", "aria-hidden": "true" }, el("span", { class: "dcm-used" })), t("memory used")),
        measured && el("li", {}, el("span", { class: "dcm-key", "aria-hidden": "true" }, el("span", { class: "dcm-busy" })), t("busy")),
    ];
}

// long reports whether the mode has a line of its own: that of a GPU with MIG lists its instances.
const long = g => g.kind === "parts-slice" || g.kind === "parts-other";

export function gpu(g) {
    const moving = g.want || g.pending;
    const tone = g.lost || g.error ? "bad" : g.why || g.reloading ? "alone" : moving ? "moving" : "";
    return el("li", { class: `dcm-card ${pf("card")} ${tone}`, "data-address": g.address, "data-mode": g.mode },
        el("div", { class: "dcm-card-top" },
            el("h3", {}, g.title, el("small", {}, g.model)),
            g.mode && !long(g) && el("span", { class: `dcm-mode ${g.kind}` }, g.mode)),
        el("code", { class: "dcm-address" }, g.address),
        g.mode && long(g) && el("p", { class: `dcm-mode ${g.kind}`, title: g.mode }, g.mode),
        picture(g),
        el("div", { class: "dcm-card-foot" }, foot(g), el("p", { class: "dcm-load" })));
}

function foot(g) {
    if (g.lost) return g.since ? [t("missing since"), " ", el("time", { datetime: g.since }, time(g.since))] : t("missing");
    if (g.why) return t("not managed: $0", g.why);
    if (g.reloading) return t("the driver is being reloaded");
    if (g.error) return el("details", {}, el("summary", { class: "dcm-bad" }, t("could not be changed")), el("p", { class: "dcm-error" }, g.error));
    if (g.want) return g.left ? t("to be $0, when its holders have ended", g.want) : t("to be $0", g.want);
    if (g.pending) return t("$0 takes effect when the driver is loaded next", g.pending);
    const free = g.count - g.held;
    return [
        n("$0 partition", "$0 partitions", g.count),
        g.count === 1 ? (free ? t("free") : t("held")) : free === g.count ? t("all free") : free ? t("$0 free", free) : t("all held"),
        g.open.length && t("$0 open", g.open.join(", ")), g.skipped && t("skipped by the profile"),
    ].filter(Boolean).join(", ");
}

function picture(g) {
    if (!g.domains.length) return el("div", { class: "dcm-silicon empty", role: "img", "aria-label": g.lost ? t("missing") : t("not partitioned") });
    const first = g.domains[0].cells[0];
    return el("ul", { class: "dcm-silicon", "aria-label": t("Partitions of $0", g.title), onkeydown: move, onfocusin: stop }, g.domains.map(d =>
        el("li", { class: "dcm-domain", "aria-label": g.domains.length > 1 ? t("Memory domain $0", d.index) : null },
            el("ul", { class: "dcm-cells" }, d.cells.map(c => cell(c, c === first))))));
}

// cell is a button that opens the details. The sketch of a partition that does not exist yet is none.
function cell(c, stop) {
    const inside = [
        el("span", { class: "dcm-used", "aria-hidden": "true" }), el("span", { class: "dcm-busy", "aria-hidden": "true" }),
        el("span", { class: "dcm-number", "aria-hidden": "true" }, String(c.index)), el("span", { class: "dcm-unseen" }, c.label),
    ];
    const out = el("li", { class: `dcm-cell ${c.kind} ${c.held ? "held" : "free"} ${c.kept.length ? "kept" : ""}` },
        c.name ? el("button", { type: "button", id: `cell-${c.name}`, "data-part": c.name, tabindex: stop ? "0" : "-1", title: c.label, "aria-haspopup": "dialog" }, inside) : inside);
    if (c.share) out.style.flexGrow = String(Math.round(c.share * 1000));
    return out;
}

// The partitions of a GPU are one stop of the Tab key. The arrow keys move between them.
const moves = {
    ArrowRight: at => at + 1, ArrowDown: at => at + 1, ArrowLeft: at => at - 1, ArrowUp: at => at - 1,
    Home: () => 0, End: (at, last) => last,
};

function move(event) {
    const all = [...event.currentTarget.querySelectorAll("button")], to = moves[event.key];
    if (!to) return;
    event.preventDefault();
    all[to(all.indexOf(event.target), all.length - 1)]?.focus();
}

function stop(event) {
    for (const button of event.currentTarget.querySelectorAll("button")) button.tabIndex = button === event.target ? 0 : -1;
}

// fill shows the use in the drawn cells and cards. It draws none of them again, since the user may be
// clicking one.
export function fill(gpus, uses) {
    for (const g of gpus) {
        const cells = g.domains.flatMap(d => d.cells), known = cells.map(c => uses.get(c.name)).filter(Boolean);
        for (const c of cells) {
            const button = document.getElementById(`cell-${c.name}`), use = uses.get(c.name);
            if (!button) continue;
            button.querySelector(".dcm-used").style.height = part(use?.used / use?.size);
            button.querySelector(".dcm-busy").style.height = part(use?.busy / 100);
            write(button.querySelector(".dcm-unseen"), [c.label, use && short(use)].filter(Boolean).join(", "));
            button.title = button.querySelector(".dcm-unseen").textContent;
        }
        const card = document.querySelector(`[data-address="${CSS.escape(g.address)}"] .dcm-load`);
        if (card) write(card, known.length && known.length === cells.length ? short(total(known)) : "");
    }
}

const part = of => (of > 0 ? `${Math.min(100, Math.round(of * 100))}%` : "0");

function write(place, text) {
    if (place.textContent !== text) place.textContent = text;
}
