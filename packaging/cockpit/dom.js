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

// pf is a class of PatternFly with modifiers: pf("alert", "inline").
export const pf = (name, ...modifiers) => [`pf-v6-c-${name}`, ...modifiers.map(m => `pf-m-${m}`)].join(" ");

const drawn = new WeakMap();
let pressed = null; // the element on which a button or a finger is down
let late = false; // a place was not drawn since
let drawAll = () => {};

// whenReleased sets what draws the page after a click that held up a place: other places are drawn into it.
export const whenReleased = draw => (drawAll = draw);

// A click needs the same element from press to release, so a place is not drawn in between.
const released = () => setTimeout(() => {
    pressed = null;
    if (!late) return;
    late = false;
    drawAll();
});
document.addEventListener("pointerdown", event => (pressed = event.target), true);
document.addEventListener("pointerup", released, true);
document.addEventListener("pointercancel", released, true);
const lost = new WeakMap(); // the element that had the focus and is gone, by place

// redraw replaces the content of a place by draw(data) if the data has changed. Unchanged
// content keeps the focus and the position of a screen reader. An element that is not drawn for a
// while gets the focus back.
export function redraw(place, data, draw) {
    if (pressed && place.contains(pressed)) {
        late = true;
        return;
    }
    const now = JSON.stringify(data);
    if (drawn.get(place) === now) return;
    drawn.set(place, now);
    const active = document.activeElement;
    const focused = place.contains(active) ? active.id : active === document.body && lost.get(place);
    place.replaceChildren(...[draw(data)].flat().filter(Boolean));
    lost.delete(place);
    if (!focused) return;
    const again = document.getElementById(focused);
    if (again) again.focus();
    else lost.set(place, focused);
}

// table is a table with a header, or a sentence if there are no rows.
export function table(label, heads, rows, none) {
    if (!rows.length) return el("p", { class: "dcm-note" }, none);
    return el("div", { class: `dcm-wide ${pf("card")}`, tabindex: "0", role: "group", "aria-label": label }, el("table", { class: pf("table"), "aria-label": label },
        el("thead", {}, el("tr", {}, heads.map(h => el("th", { scope: "col" }, h)))),
        el("tbody", {}, rows.map(row => el("tr", {}, row.map((c, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, c)))))));
}
