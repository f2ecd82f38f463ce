// The parts of the page, drawn from the results of model.js and words.js. Elements have the classes
// of PatternFly, see patternfly.css.

import { el, pf } from "./dom.js";
import { t } from "./text.js";
import { duration } from "./words.js";

const marks = { good: "✓", warning: "!", danger: "✕", unknown: "?", busy: "…", idle: "–" };
const tones = { good: "success", warning: "warning", danger: "danger", busy: "info" };

// alert draws a tone, a title and further elements.
function alert(tone, title, inside, role) {
    return el("div", { class: pf("alert", "inline", tones[tone]), role },
        el("span", { class: pf("alert__icon"), "aria-hidden": "true" }, marks[tone]),
        el("div", {}, title, inside));
}

// notice draws a reason with its hint. Lines that begin like a hint are one of their own.
export function notice(tone, reason, hint, role) {
    return alert(tone, reason.split("\n").map(folded),
        hint && hint.split("\n").map(line => el("p", { class: "dcm-hint" }, el("b", {}, t("Hint:"), " "), line)), role);
}

const longest = 280; // characters of a reason that is shown as a whole

// folded draws a line of a reason. A long one, for example with the error of a driver, opens.
function folded(line) {
    if (line.length <= longest) return el("p", { class: "dcm-reason" }, line);
    const start = line.slice(0, line.lastIndexOf(" ", longest / 2));
    return el("details", { class: "dcm-reason" }, el("summary", {}, `${start} …`), el("p", {}, line));
}

function where(selected, applied, missing) {
    if (applied !== selected) return t("It is not on the GPUs.");
    return missing ? t("It is on the GPUs that are present.") : t("It is on the GPUs.");
}

export function health({ health, problems, warnings, busy, selected, applied, source, untilReboot, missing, empty }) {
    const place = untilReboot ? t("Selected until reboot: $0 ($1).", selected, source) : source ? t("Selected: $0 ($1).", selected, source) : t("Selected: $0.", selected);
    return [
        alert(health.tone, el("p", { class: "dcm-verdict", id: "verdict" }, health.summary || health.state),
            [selected && el("p", { class: "dcm-note" }, place, !busy && [" ", where(selected, applied, missing)]),
                empty && el("p", { class: "dcm-hint" }, el("b", {}, t("Hint:"), " "), t("dcm gpus lists the devices, and why dcm does not manage them."))]),
        ...problems.map(p => notice(health.tone === "danger" ? "danger" : "warning", p.text, p.hint)),
        ...warnings.map(w => notice("warning", w, "")),
    ];
}

export function run(r) {
    if (!r || !r.running) return [];
    const title = t("Applying $0", r.profile), total = r.steps.length;
    return [el("div", { class: `dcm-run ${pf("card")}` },
        el("h2", {}, title),
        el("progress", { "aria-label": title, value: total ? String(r.done) : null, max: total ? String(total) : null }),
        total > 0 && el("p", { class: "dcm-note" }, t("$0 of $1 steps", r.done, total)),
        steps(r.steps))];
}

// steps draws the steps of a run, each with a mark for its state.
export function steps(list) {
    const state = s => (s.error ? "danger" : s.over ? "success" : s.begun ? "info" : "pending");
    return el("ol", { class: `dcm-steps ${pf("progress-stepper")}` }, list.map(s => el("li", { class: `${pf("progress-stepper__step", state(s))} ${s.over ? "over" : ""}` },
        s.text, s.error && `: ${s.error}`, s.took !== null && el("small", {}, " ", duration(s.took)))));
}

// profiles are radio buttons, so that the arrow keys move between them.
export function profiles({ names, selected, applied }, chosen, choose) {
    if (!names.length) return [el("p", { class: "dcm-note" }, t("There are no profiles for these GPUs."))];
    return names.map((name, i) => el("div", { class: `dcm-profile ${pf("radio")}` },
        el("input", {
            type: "radio", name: "profile", id: `profile-${i}`, value: name, "aria-describedby": `fit-${i}`,
            checked: name === chosen, onchange: () => choose(name),
        }),
        el("label", { for: `profile-${i}` }, name,
            name === selected && el("span", { class: pf("label", "outline", applied === name ? "blue" : "orange") }, t("selected")),
            name === applied && el("span", { class: pf("label", "outline", "green") }, t("on the GPUs"))),
        el("span", { id: `fit-${i}`, class: "dcm-note" })));
}

// fitting writes next to each profile what it would change, or why it does not fit. It does
// not redraw the buttons, since the user may be clicking one.
export function fitting(names, fits, busy) {
    names.forEach((name, i) => {
        const fit = fits[name], place = document.getElementById(`fit-${i}`);
        if (!place) return;
        place.textContent = fit ? fit.words : busy ? "" : "…";
        place.title = fit?.unfit?.reason || fit?.refused?.reason || "";
        place.parentElement.classList.toggle("unfit", Boolean(fit && fit.unfit));
        place.classList.toggle("dcm-warn", Boolean(fit && fit.refused));
    });
}
