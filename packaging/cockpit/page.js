// The page: reads the state of dcm from the bus when it has changed, and draws it.

import { connect } from "./bus.js";
import * as details from "./details.js";
import * as draw from "./draw.js";
import { redraw, whenReleased } from "./dom.js";
import * as gpus from "./gpus.js";
import { meter } from "./meter.js";
import { model } from "./model.js";
import { confirmation, plan } from "./plan.js";
import * as tables from "./tables.js";
import { n, t, translate } from "./text.js";
import { follow } from "./theme.js";
import { differs, uses } from "./usage.js";
import { effort, news, past, plans, refusal } from "./words.js";

const $ = id => document.getElementById(id);
let remeasure; // measures the use now

const state = {
    bus: null, admin: false, now: null, gone: null, past: [],
    plans: {}, planning: false, problem: null, fitted: "", chosen: "", failed: null, asking: false, failedAt: null, briefly: false,
    usage: null, uses: new Map(), // the last result of Usage(), and what is shown of it
    difference: "", // between the account and the last measurement
};

// once runs one task at a time. A call during a run causes one more run. An error ends only its own run.
function once(task) {
    let running = false, again = false;
    return async () => {
        again = true;
        if (running) return;
        running = true;
        try {
            while (again) {
                again = false;
                await task();
            }
        } finally {
            running = false;
        }
    };
}

const look = once(async () => {
    const bus = state.bus;
    try {
        const now = model(await bus.account());
        say(news(state.now, now));
        state.now = now;
        state.gone = null;
        overview(now.health);
        if (now.busy) Object.assign(state, { plans: {}, usage: null, uses: new Map() }); // they are of the GPUs before the change
        const cause = JSON.stringify([now.selected, now.applied, now.health.summary]);
        state.failedAt ??= cause;
        if (state.failedAt !== cause) state.failed = null; // the refusal is old
        state.past = past(await bus.history().catch(() => []));
    } catch (error) {
        if (bus !== state.bus) return;
        Object.assign(state, { gone: refusal(error), fitted: "" });
        say(state.gone.reason);
        overview({ tone: "danger", summary: state.gone.reason });
    }
    show();
    if (!state.now || state.gone || state.now.busy) return;
    fit(bus); // not awaited: later changes cause another call
    remeasure?.();
});

function say(text) {
    if (text) $("live").textContent = text;
}

// facts is what plans and refusals depend on. After a change of it they are old.
const facts = now => JSON.stringify([now.profiles, now.selected, now.health.summary, now.problems, now.broken,
    now.gpus.map(g => [g.address, g.mode, g.held]), now.clients, now.leases, now.holders, now.reservations]);

// fit plans all profiles if something has changed on which the plans depend.
async function fit(bus) {
    const at = facts(state.now);
    if (state.fitted === at) return;
    Object.assign(state, { fitted: at, planning: true });
    show();
    let found = {}, problem = null;
    try {
        found = plans(await bus.plans());
    } catch (error) {
        problem = refusal(error);
    }
    if (bus !== state.bus || state.fitted !== at) return; // a newer call has started
    if (state.asking || state.now.busy) { // a plan during a change is meaningless
        state.fitted = "";
        return;
    }
    const before = state.plans[state.chosen]?.words;
    for (const one of Object.values(found)) one.words = effort(one);
    Object.assign(state, { plans: found, problem, planning: false });
    if (found[state.chosen]?.words !== before) read();
    show();
}

// read reads the plan to a screen reader.
function read() {
    const found = state.plans[state.chosen];
    if (found) say(t("Plan for $0: $1.", state.chosen, found.words));
}

function choose(name) {
    Object.assign(state, { chosen: name, failed: null });
    read();
    show();
}

// confirmed asks before a reload of the driver, which stops all use of the GPUs.
async function confirmed(profile) {
    const found = state.plans[profile];
    if (!found?.reload) return true;
    $("confirm-text").replaceChildren(...confirmation(found));
    $("confirm").returnValue = "";
    $("confirm").showModal();
    await new Promise(done => $("confirm").addEventListener("close", done, { once: true }));
    return $("confirm").returnValue === "yes";
}

async function apply(profile, briefly = state.briefly) {
    if (!await confirmed(profile)) return;
    const { chosen } = state; // the user may choose another one during the change
    Object.assign(state, { asking: true, failed: null });
    say(t("Applying $0", profile));
    show();
    try {
        await state.bus.use(profile, briefly);
        say(t("$0 is on the GPUs.", profile));
        if (state.chosen === chosen) state.chosen = profile;
    } catch (error) {
        const failed = refusal(error);
        say(failed.reason);
        if (state.chosen === chosen) state.failed = failed;
    }
    Object.assign(state, { asking: false, fitted: "", failedAt: null });
    await look();
}

// former is the profile that was last on the GPUs, if it is another one than the selected.
function former({ selected, applied, profiles }) {
    if (!selected || selected === applied) return "";
    const run = state.past.find(e => e.result === "applied" && e.profile);
    return run && run.profile !== selected && profiles.includes(run.profile) ? run.profile : "";
}

// restore selects the former profile again. If it is the persistent selection, that only ends the one until reboot.
const restore = profile => apply(profile, state.now.untilReboot && state.now.lasting !== profile);

function choosePeriod(briefly) {
    state.briefly = briefly;
    show();
}

// measure reads the use of the partitions. dcm sends no signal when a process opens a device or a request
// waits for a lease, so other holders and another queue cause a new account.
async function measure() {
    const { bus, now, gone } = state;
    if (!now || gone || now.busy || !now.gpus.some(g => g.count)) return;
    const [usage, queue] = await Promise.all([bus.usage(), bus.queue()].map(call => call.catch(() => null)));
    if (bus !== state.bus) return;
    Object.assign(state, { usage, uses: usage ? uses(usage, state.usage) : new Map() });
    if (usage && queue) { // a call that failed is no news
        const found = differs(state.now, state.uses, queue);
        if (found && found !== state.difference) look();
        state.difference = found;
    }
    show();
}

async function release(lease) {
    try {
        await state.bus.release(lease);
        say(t("$0 was released.", lease));
    } catch (error) {
        say(refusal(error).reason);
        redraw($("health"), refusal(error), ({ reason, hint }) => draw.notice("danger", reason, hint, "alert"));
        return;
    }
    await look();
}

// overview shows the health at the page's entry of Cockpit's menu and on its overview.
function overview(health) {
    const type = { warning: "warning", danger: "error" }[health.tone] || null;
    cockpit.transport.control("notify", { page_status: type ? { type, title: health.summary } : null });
}

function show() {
    const { now, gone } = state;
    const marks = document.body.classList;
    $("access").textContent = state.admin ? "" : t("Read-only: changes need administrative access.");
    marks.toggle("gone", Boolean(gone));
    if (gone) redraw($("health"), gone, ({ reason, hint }) => draw.notice("danger", reason, hint, "alert"));
    if (!now && !gone) return;
    marks.remove("loading");
    marks.toggle("bare", !now);
    if (!now) return;
    const { health, problems, warnings, busy, selected, applied, source, untilReboot, broken } = now;
    const admin = state.admin && !gone;
    marks.toggle("empty", now.empty);
    if (!gone) redraw($("health"), { health, problems, warnings, busy, selected, applied, source, untilReboot, missing: now.missing, empty: now.empty }, draw.health);
    redraw($("run"), gone ? null : now.run, draw.run);
    redraw($("legend"), { gpus: now.gpus, measured: state.uses.size > 0 }, gpus.legend);
    redraw($("gpus"), now.gpus, list => list.map(gpus.gpu));
    gpus.fill(now.gpus, state.uses);
    details.update(state);
    redraw($("profiles"), { names: now.profiles, selected, applied }, data => draw.profiles(data, state.chosen, choose));
    draw.fitting(now.profiles, state.planning ? {} : state.plans, busy || state.problem);
    $("plan").setAttribute("aria-busy", String(state.planning && !busy));
    redraw($("plan"), {
        chosen: state.chosen, plan: state.plans[state.chosen], problem: state.problem, broken, failed: state.failed,
        busy: state.asking || busy, admin, gone: Boolean(gone), selected, applied, untilReboot, briefly: state.briefly, problems: problems.map(p => p.text), keep: former(now),
    }, data => plan(data, { apply, restore, choosePeriod }));
    redraw($("clients"), now.clients, tables.clients);
    redraw($("partitions"), now.gpus, tables.partitions);
    $("free").textContent = busy ? "" : n("$0 partition is free for a lease.", "$0 partitions are free for a lease.", now.free);
    redraw($("leases"), { list: now.leases, admin }, data => tables.leases(data, release));
    redraw($("reservations"), now.reservations, tables.reservations);
    redraw($("holders"), now.holders, tables.holders);
    redraw($("queue"), now.queue, tables.queue);
    redraw($("history"), { list: state.past, run: now.run?.running ? null : now.run }, tables.history);
}

// begin connects again, with the current access.
function begin(cockpit, admin) {
    state.bus?.close();
    state.admin = admin;
    state.bus = connect(cockpit, look);
    state.fitted = "";
    look();
}

const cockpit = window.cockpit;
translate(cockpit);
document.title = t("GPU partitions");
for (const element of document.querySelectorAll("[translate=yes]")) element.textContent = t(element.textContent);
for (const element of document.querySelectorAll("[aria-label]")) element.setAttribute("aria-label", t(element.getAttribute("aria-label")));
document.documentElement.lang = cockpit.language?.replace("_", "-") || "en";
follow(window);
whenReleased(show);
$("look").addEventListener("click", () => { state.fitted = ""; look(); });
document.addEventListener("click", event => {
    const part = event.target.closest("button[data-part]");
    if (part) details.open(part.dataset.part, state);
    const link = event.target.closest("a[data-jump]");
    if (!link) return;
    event.preventDefault();
    cockpit.jump(link.dataset.jump);
});
const permission = cockpit.permission({ admin: true });
permission.addEventListener("changed", () => begin(cockpit, Boolean(permission.allowed)));
begin(cockpit, Boolean(permission.allowed));
details.follow(window);
remeasure = meter(window, cockpit, measure);
