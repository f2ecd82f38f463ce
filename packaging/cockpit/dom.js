// Elements of a document. Foreign text is inserted only as text, never as markup.

// el creates an element with properties (class, on..., others as attributes) and children,
// which are elements or text. Null and false are omitted.
export function el(tag, properties = {}, ...inside) {
    const out = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
        if (value === null || value === undefined || value === false) continue;
        if (key === "class") out.className = value;
        else if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
        else out.setAttribute(key, value === true ? "" : value);
    }
    out.append(...inside.flat().filter(x => x !== null && x !== undefined && x !== false && x !== ""));
    return out;
}

const drawn = new WeakMap();

// redraw replaces the content of a place by draw(data) if the data has changed. Unchanged
// content keeps the focus and the position of a screen reader.
export function redraw(place, data, draw) {
    const now = JSON.stringify(data);
    if (drawn.get(place) === now) return;
    drawn.set(place, now);
    const focused = place.contains(document.activeElement) && document.activeElement.id;
    place.replaceChildren(...[draw(data)].flat().filter(Boolean));
    if (focused) document.getElementById(focused)?.focus();
}

// table is a table with a header, or a sentence if there are no rows.
export function table(label, heads, rows, none) {
    if (!rows.length) return el("p", { class: "dcm-note" }, none);
    return el("div", { class: "dcm-wide" }, el("table", { class: "dcm-table", "aria-label": label },
        el("thead", {}, el("tr", {}, heads.map(h => el("th", { scope: "col" }, h)))),
        el("tbody", {}, rows.map(row => el("tr", {}, row.map((c, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, c)))))));
}
