// The last run, or the one in progress, made only from an account. This file is independent of Cockpit
// and the document.

import { n, t } from "./text.js";

export const happened = time => Boolean(time) && !/^0001/.test(time);

// together joins equal neighbours, as dcm status does: "3g.40gb, 4 × 1g.10gb".
export function together(slices) {
    const joined = [];
    for (const name of slices) {
        if (joined.at(-1)?.name === name) joined.at(-1).n++;
        else joined.push({ name, n: 1 });
    }
    return joined.map(({ name, n }) => (n > 1 ? `${n} × ${name}` : name)).join(", ");
}

// geometry converts the text of a MIG geometry in a report, "1g.10gb@6 3g.40gb@0", "off" or "empty", to the
// form of the account: the instances without their slots, the largest first.
export function geometry(text) {
    if (text === "off") return { whole: "MIG off" };
    if (text === "empty") return { whole: "MIG on, empty" };
    const names = text.split(" ").map(one => one.replace(/@.*/, ""));
    const size = name => (/(\d+)g\.(\d+)gb/.exec(name) || []).slice(1).map(Number);
    const [slices, memory] = [name => size(name)[0] || 0, name => size(name)[1] || 0];
    return { slices: names.sort((a, b) => slices(b) - slices(a) || memory(b) - memory(a) || (a < b ? -1 : Number(a > b))) };
}

// Each step before, during and after it, and if it failed. $0 is the mode after it.
const tenses = {
    memory: to => [t("request $0", to), t("requesting $0", to), t("requested $0", to), t("could not request $0", to)],
    compute: to => [t("switch to $0", to), t("switching to $0", to), t("switched to $0", to), t("could not be switched to $0", to)],
    allocation: to => [t("set memory allocation $0", to), t("setting memory allocation $0", to), t("set memory allocation $0", to), t("could not set memory allocation $0", to)],
    isolation: to => [t("set isolation $0", to), t("setting isolation $0", to), t("set isolation $0", to), t("could not set isolation $0", to)],
    reload: () => [t("reload the driver"), t("reloading the driver"), t("reloaded the driver"), t("could not reload the driver")],
    "mig-clear": () => [t("destroy instances"), t("destroying instances"), t("destroyed instances"), t("could not destroy instances")],
    "mig-mode": to => [t("set $0", to), t("setting $0", to), t("$0 is set", to), t("could not set $0", to)],
    "mig-fill": to => [t("create $0", to), t("creating $0", to), t("created $0", to), t("could not create $0", to)],
};

// run converts the last run, or a change that has stopped the services and whose run has not begun; null for
// none. stopped reports whether services are stopped for it.
export function run(account, stopped) {
    const last = account.last_run, daemon = account.daemon || {}, applying = daemon.phase === "applying";
    const begun = Boolean(last) && (!applying || Date.parse(last.started) >= Date.parse(daemon.since));
    if (!begun && !applying) return null;
    const report = begun ? last : { profile: account.profile.in_force, result: "running" };
    const steps = (report.steps || []).map(step), ended = begun && last.result !== "running";
    if (applying && stopped) {
        steps.unshift({
            text: begun ? t("stopped the services") : t("stopping the services"),
            begun: true, over: begun, took: begun ? Date.parse(last.started) - Date.parse(daemon.since) : null, error: "",
        });
        steps.push({ text: ended ? t("starting the services") : t("start the services"), begun: ended, over: false, took: null, error: "" });
    }
    return {
        id: report.id || "",
        done: steps.filter(s => s.over).length,
        profile: report.profile,
        result: report.result,
        running: applying || report.result === "running",
        started: report.started,
        finished: report.finished || "",
        error: report.error ? report.error.text : "",
        hint: report.error ? report.error.hint || "" : "",
        steps,
    };
}

function step(s) {
    const over = happened(s.finished), begun = happened(s.started) || over;
    const to = s.to || "";
    const words = (tenses[s.kind] || (() => Array(4).fill(`${s.kind} ${to}`)))(to)[s.error ? 3 : over ? 2 : begun ? 1 : 0];
    const where = s.hive && s.hive.length > 1 ? n("$0 GPU", "$0 GPUs", s.hive.length) : s.gpu || "";
    const took = over && happened(s.started) ? Date.parse(s.finished) - Date.parse(s.started) : null;
    const text = [where, words].filter(Boolean).join(": ");
    return { text: s.undo ? t("undo: $0", text) : text, begun, over, took, error: s.error || "" };
}
