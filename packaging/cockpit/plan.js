// The plan of the chosen profile, with the buttons that apply it or keep the former one.

import { el, pf } from "./dom.js";
import { notice } from "./draw.js";
import { planned } from "./model.js";
import { n, t } from "./text.js";

const note = (id, text) => el("p", { id, class: "dcm-note" }, text);

// plan draws the plan. keep is the profile to which the user can return while the chosen one is
// selected and not on the GPUs; "" for none. choosePeriod(true) selects until reboot instead of permanently.
export function plan({ chosen, plan, problem, broken, busy, admin, gone, selected, applied, untilReboot, failed, problems, keep, briefly }, { apply, restore, choosePeriod }) {
    if (!chosen) return [note(null, t("Choose a profile to see its plan."))];
    const out = [el("h2", {}, t("Plan for $0", chosen))];
    if (problem) return [...out, notice("danger", problem.reason, problem.hint, "alert")];
    if (!plan) return [...out, note(null, busy ? t("A change is in progress.") : t("Planning ..."))];
    if (plan.unfit) return [...out, notice("danger", plan.unfit.reason, plan.unfit.hint, "alert")];
    const refused = broken ? { reason: t("the configuration on disk has an error"), hint: "" } : plan.refused;
    const idle = !plan.steps.length && chosen === selected && chosen === applied && untilReboot === briefly;
    out.push(steps(plan), ...restarts(plan), ...picture(plan.after));
    const waits = chosen === selected && plan.transient; // the problem above says for what
    const known = failed && problems.includes(failed.reason); // it stands above
    if (failed && !known) out.push(notice("danger", failed.reason, failed.hint, "alert"));
    else if (refused && !waits && !known) out.push(notice("warning", [t("It would be refused now:"), refused.reason].join(" "), refused.hint)); // not an alert: it is read with the plan
    else if (plan.waits) out.push(notice("warning", plan.waits.reason, plan.waits.hint));
    const never = Boolean(refused) && (broken || !plan.transient) || waits;
    const words = busy ? t("Applying ...") : refused && !never ? t("Apply $0 when possible", chosen) : t("Apply $0", chosen);
    out.push(period(briefly, choosePeriod), el("div", { class: "dcm-actions" },
        button("apply", "primary", words, admin && !busy && !idle && !never, () => apply(chosen)),
        keep && chosen === selected && !idle && button("keep", "secondary", t("Keep $0", keep), admin && !busy, () => restore(keep))));
    out.push(note("apply-why", gone ? "" : !admin ? t("Read-only: this needs administrative access.")
        : idle ? t("This profile is on the GPUs.")
            : waits ? t("It is selected: dcm applies it as soon as the holders end.")
                : refused && !never ? t("The profile is selected now and applied as soon as the holders end.") : ""));
    return out;
}

// confirmation is the text of the dialog before the driver is reloaded.
export const confirmation = plan => [
    el("p", {}, t("No process can use a GPU until the driver is loaded again.")),
    ...(plan.restarts.length ? [el("p", {}, el("b", {}, n("$0 unit would be restarted:", "$0 units would be restarted:", plan.restarts.length))), units(null, plan.restarts)] : []),
];

// period is the choice between the selections of dcm use and of dcm apply.
function period(briefly, choosePeriod) {
    const one = (id, words, value) => el("label", { class: pf("radio"), for: id },
        el("input", { type: "radio", name: "period", id, checked: briefly === value, onchange: () => choosePeriod(value) }), words);
    return el("fieldset", { class: "dcm-duration" }, el("legend", { class: "dcm-unseen" }, t("How long the profile stays selected")),
        one("permanently", t("Permanently"), false), one("until-reboot", t("Until reboot"), true));
}

// button is not disabled if it has no effect, since a disabled button loses the focus.
function button(id, kind, words, enabled, press) {
    return el("button", {
        id, type: "button", class: pf("button", kind), "aria-disabled": enabled ? null : "true",
        "aria-describedby": "apply-why", onclick: () => enabled && press(),
    }, words);
}

function steps(plan) {
    if (!plan.steps.length) return el("p", { id: "steps" }, t("The GPUs need no change."));
    return el("ol", { class: "dcm-steps", id: "steps" }, plan.steps.map(s => el("li", {}, s)));
}

const units = (id, list) => el("ul", { class: "dcm-units", id }, list.map(u => el("li", {}, el("code", {}, u))));

function restarts(plan) {
    const out = [];
    if (plan.left.length) out.push(el("p", {}, t("These GPUs would stay as they are: $0.", plan.left.join(", "))));
    if (plan.rounds.length) out.push(el("ol", { class: "dcm-steps", id: "rounds" }, plan.rounds.map(r => el("li", {},
        [t("round of $0", r.gpus.join(", ")), r.restarts.length ? t("restarts $0", r.restarts.join(", ")) : ""].filter(Boolean).join(": ")))));
    if (plan.restarts.length) return [...out, el("p", {}, el("b", {}, n("$0 unit would be restarted:", "$0 units would be restarted:", plan.restarts.length))), units("restarts", plan.restarts)];
    if (plan.steps.length && !plan.refused) out.push(el("p", { id: "restarts" }, t("No unit would be restarted.")));
    return out;
}

// picture draws a GPU of each mode that GPUs would have after the change.
function picture(after) {
    if (!after.length) return [];
    return [el("p", { id: "after" }, t("After the change:")), el("ul", { class: "dcm-after", "aria-labelledby": "after" }, after.map(a => el("li", {},
        el("p", { class: "dcm-note" }, [n("$0 GPU", "$0 GPUs", a.gpus), a.mode, n("$0 partition each", "$0 partitions each", a.partitions)].join(", ")),
        el("div", { class: "dcm-silicon", "aria-hidden": "true" }, planned(a.mode).map(d => el("div", { class: "dcm-domain" },
            el("div", { class: "dcm-cells" }, d.cells.map(c => el("span", { class: `dcm-cell ${c.kind} planned` }, String(c.index))))))))))];
}
