// Texts for plans, refusals and runs. This file is independent of Cockpit and the document.

import { n, t } from "./text.js";

const kinds = {
    memory: s => (s.from ? t("request $1 for $0 (now $2)", gpus(s), s.to, s.from) : t("request $1 for $0", gpus(s), s.to)),
    compute: s => (s.from ? t("switch $0 to $1 (now $2)", gpus(s), s.to, s.from) : t("switch $0 to $1", gpus(s), s.to)),
    allocation: s => t("set the memory allocation of $0 to $1", gpus(s), s.to),
    isolation: s => t("set the isolation of $0 to $1", gpus(s), s.to),
    reload: () => t("reload the driver"),
    "mig-clear": s => (s.from ? t("destroy instances of $0 (now $1)", gpus(s), s.from) : t("destroy instances of $0", gpus(s))),
    "mig-mode": s => t("set $0 to $1", gpus(s), s.to),
    "mig-fill": s => t("create $1 on $0", gpus(s), s.to),
};

function gpus(step) {
    if (step.devices.length === 1) return step.devices[0];
    return step.devices.length ? n("$0 GPU", "$0 GPUs", step.devices.length) : t("the GPUs");
}

// plans converts the result of Plans() to plans by profile.
export const plans = list => Object.fromEntries(list.map(o => [o.profile, plan(o)]));

// plan converts an entry of Plans(). Consecutive steps that differ only in their GPU are merged.
function plan(o) {
    const joined = [];
    for (const { kind, gpu, hive, from = "", to = "" } of o.steps) {
        const devices = hive && hive.length ? hive : gpu ? [gpu] : [];
        const last = joined.at(-1);
        if (last && kind !== "memory" && kind !== "reload" && last.kind === kind && last.from === from && last.to === to)
            last.devices = last.devices.concat(devices);
        else joined.push({ kind, devices, from, to });
    }
    return {
        profile: o.profile,
        steps: joined.map(s => (kinds[s.kind] || (() => `${s.kind} ${gpus(s)} ${s.to}`))(s)),
        reload: o.reload,
        restarts: o.clients,
        left: o.left,
        rounds: o.rounds.map(r => ({ gpus: r.gpus, restarts: r.units || [] })),
        after: after(o.gpus),
        waits: reason(o.waits),
        refused: reason(o.refused),
        transient: Boolean(o.refused && o.refused.transient),
        unfit: reason(o.error),
    };
}

const reason = e => (e ? { reason: e.text, hint: e.hint || "" } : null);

// after groups the GPUs that would change by their mode after the change.
function after(list) {
    const by = new Map();
    for (const g of list) by.set(g.mode, { mode: g.mode, partitions: g.partitions, gpus: (by.get(g.mode)?.gpus || 0) + 1 });
    return [...by.values()];
}

const start = "systemctl start dcm";
const stopped = () => ({ reason: t("dcm.service is not running."), hint: start });

// refusal splits the error of a call into reason and hint.
export function refusal(error) {
    const text = String(error.message || error.problem || error);
    switch (error.name) {
    case "org.freedesktop.DBus.Error.ServiceUnknown":
    case "org.freedesktop.DBus.Error.NameHasNoOwner":
        return stopped();
    case "org.freedesktop.DBus.Error.NoReply":
        return { reason: t("dcm.service exited before it answered. The change may have been made."), hint: "" };
    case "org.freedesktop.DBus.Error.AccessDenied":
    case "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired":
        return { reason: text, hint: t("Turn on administrative access.") };
    }
    if (error.problem === "not-found") return stopped();
    const [reason, hint = ""] = text.split("\nhint: ");
    return { reason, hint };
}

// effort summarises a plan in a few words.
export function effort({ steps, restarts, reload, refused, unfit }) {
    if (unfit) return t("cannot be applied");
    if (!steps.length) return t("no change");
    if (refused) return t("would be refused now");
    const words = [reload ? t("reloads the driver") : t("switches GPUs")];
    if (restarts.length) words.push(n("restarts $0 unit", "restarts $0 units", restarts.length));
    return words.join(", ");
}

// past converts the history, the latest first.
export function past(entries) {
    return [...entries].reverse().map(e => ({
        id: e.id || "",
        began: e.started,
        took: e.finished ? duration(Date.parse(e.finished) - Date.parse(e.started)) : "",
        result: e.result,
        profile: e.profile,
        changed: e.gpus ? t("$0 of $1", e.changed, e.gpus) : "-",
        asked: asked(e.asked || {}),
        error: e.error || "",
    }));
}

function asked({ why, who }) {
    const name = who && (who.login || who.sudo || who.user);
    return [why, name ? t("by $0", name) : ""].filter(Boolean).join(" ");
}

export function duration(ms) {
    if (!(ms >= 0)) return "";
    if (ms < 1000) return `${Math.round(ms)} ms`;
    const s = ms / 1000;
    if (s < 60) return `${Math.round(s * 10) / 10} s`;
    const [whole, unit, part, small] = s < 3600 ? [60, "min", 1, "s"] : [3600, "h", 60, "min"];
    const rest = Math.round(s % whole / part);
    return `${Math.floor(s / whole)} ${unit}` + (rest ? ` ${rest} ${small}` : "");
}

// news is the sentence for a screen reader when the model has changed; "" if the change
// does not matter.
export function news(before, now) {
    if (!before) return "";
    if (now.run && now.run.running && now.busy) {
        const steps = now.run.steps, at = steps.at(-1);
        const said = at ? t("Applying $0, step $1: $2", now.run.profile, steps.length, at.text) : t("Applying $0", now.run.profile);
        const was = before.run && before.run.running ? before.run.steps.length : -1;
        return was === steps.length ? "" : said;
    }
    if (before.health.summary !== now.health.summary || before.busy !== now.busy) return now.health.summary;
    return "";
}
