// Texts for plans, refusals and runs. This file is independent of Cockpit and the document.

const kinds = {
    memory: s => `request ${s.to} for ${gpus(s)}${s.from ? ` (now ${s.from})` : ""}`,
    compute: s => `switch ${gpus(s)} to ${s.to}${s.from ? ` (now ${s.from})` : ""}`,
    reload: () => "reload the driver",
    "mig-clear": s => `destroy instances of ${gpus(s)}${s.from ? ` (now ${s.from})` : ""}`,
    "mig-mode": s => `set ${gpus(s)} to ${s.to}`,
    "mig-fill": s => `create ${s.to} on ${gpus(s)}`,
};

export const count = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;

function gpus(step) {
    if (step.devices.length === 1) return step.devices[0];
    return step.devices.length ? count(step.devices.length, "GPU") : "the GPUs";
}

// plan converts the result of Plan(). Consecutive steps that differ only in their GPU are
// merged.
export function plan([profile, steps, clients]) {
    const joined = [];
    for (const [kind, devices, from, to] of steps) {
        const last = joined.at(-1);
        if (last && kind !== "memory" && kind !== "reload" && last.kind === kind && last.from === from && last.to === to)
            last.devices = last.devices.concat(devices);
        else joined.push({ kind, devices, from, to });
    }
    return { profile, steps: joined.map(s => (kinds[s.kind] || (() => `${s.kind} ${gpus(s)} ${s.to}`))(s)), restarts: clients };
}

const gone = "dcm.service is not running.", start = "systemctl start dcm";
const access = "Turn on administrative access.";

// refusal splits the error of a call into reason and hint.
export function refusal(error) {
    const text = String(error.message || error.problem || error);
    switch (error.name) {
    case "org.freedesktop.DBus.Error.ServiceUnknown":
    case "org.freedesktop.DBus.Error.NameHasNoOwner":
        return { reason: gone, hint: start };
    case "org.freedesktop.DBus.Error.NoReply":
        return { reason: "dcm.service exited before it answered. The change may have been made.", hint: "" };
    case "org.freedesktop.DBus.Error.AccessDenied":
    case "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired":
        return { reason: text, hint: access };
    }
    if (error.problem === "not-found") return { reason: gone, hint: start };
    const [reason, hint = ""] = text.split("\nhint: ");
    return { reason, hint };
}

// effort summarises a plan in a few words.
export function effort({ steps, restarts }) {
    if (!steps.length) return "no change";
    const words = steps.includes(kinds.reload()) ? ["reloads the driver"] : ["switches GPUs"];
    if (restarts.length) words.push(`restarts ${count(restarts.length, "unit")}`);
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
        changed: `${e.changed} of ${e.gpus}`,
        asked: asked(e.asked || {}),
        error: e.error || "",
    }));
}

function asked({ why, who }) {
    const name = who && (who.login || who.sudo || who.user);
    return [why, name ? `by ${name}` : ""].filter(Boolean).join(" ");
}

export function duration(ms) {
    if (!(ms >= 0)) return "";
    if (ms < 1000) return `${Math.round(ms)} ms`;
    const s = ms / 1000;
    return s < 60 ? `${Math.round(s * 10) / 10} s` : `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
}

// news is the sentence for a screen reader when the model has changed; "" if the change
// does not matter.
export function news(before, now) {
    if (!before) return "";
    if (now.run && now.run.running && now.busy) {
        const steps = now.run.steps, at = steps.at(-1);
        const said = `Applying ${now.run.profile}` + (at ? `, step ${steps.length}: ${at.text}` : "");
        const was = before.run && before.run.running ? before.run.steps.length : -1;
        return was === steps.length ? "" : said;
    }
    if (before.health.summary !== now.health.summary || before.busy !== now.busy) return now.health.summary;
    return "";
}
