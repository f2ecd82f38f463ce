// The page: reads the state of dcm from the bus when it has changed, and draws it.

import { connect } from "./bus.js";
import * as draw from "./draw.js";
import { redraw } from "./dom.js";
import { model } from "./model.js";
import { follow } from "./theme.js";
import { effort, news, past, plan, refusal } from "./words.js";

const $ = id => document.getElementById(id);

const state = {
    bus: null, admin: false, now: null, gone: null, past: [],
    fits: {}, fitted: "", chosen: "", plan: null, refused: null, failed: null, asking: false, failedAt: null,
};

// once runs one task at a time. A call during a run causes one more run.
function once(task) {
    let running = false, again = false;
    return async () => {
        again = true;
        if (running) return;
        running = true;
        while (again) {
            again = false;
            await task();
        }
        running = false;
    };
}

const look = once(async () => {
    const bus = state.bus;
    try {
        const now = model(await bus.account());
        say(news(state.now, now));
        state.now = now;
        state.gone = null;
        const cause = JSON.stringify([now.selected, now.applied, now.health.summary]);
        state.failedAt ??= cause;
        if (state.failedAt !== cause) state.failed = null; // the refusal is old
        state.past = past(await bus.history().catch(() => []));
    } catch (error) {
        if (bus !== state.bus) return;
        state.gone = refusal(error);
        say(state.gone.reason);
    }
    show();
    if (state.now && !state.gone && !state.now.busy) fit(bus); // not awaited: later changes cause another call
});

function say(text) {
    if (text) $("live").textContent = text;
}

// facts is what plans and refusals depend on. After a change of it they are old.
const facts = now => JSON.stringify([now.profiles, now.selected, now.health.summary, now.problems, now.gpus.map(g => [g.address, g.mode]), now.clients]);

// fit plans each profile if the GPUs or the profiles have changed.
async function fit(bus) {
    const at = facts(state.now);
    if (state.fitted === at) return;
    state.fitted = at;
    state.fits = {};
    if (state.chosen) planned();
    for (const name of state.now.profiles) {
        let found;
        try {
            found = { words: effort(plan(await bus.plan(name))) };
        } catch (error) {
            found = { refused: refusal(error).reason };
        }
        if (bus !== state.bus || state.fitted !== at) return; // a newer call has started
        if (state.asking || state.now.busy) { // a plan during a change is meaningless
            state.fitted = "";
            return;
        }
        state.fits[name] = found;
        show();
    }
}

async function planned() {
    const name = state.chosen;
    try {
        const found = plan(await state.bus.plan(name));
        if (name !== state.chosen) return;
        [state.plan, state.refused] = [found, null];
        say(found.steps.length ? `Plan for ${name}: ${effort(found)}.` : `${name} needs no change.`);
    } catch (error) {
        if (name !== state.chosen) return;
        [state.plan, state.refused] = [null, refusal(error)];
    }
    show();
}

function choose(name) {
    Object.assign(state, { chosen: name, plan: null, refused: null, failed: null });
    show();
    planned();
}

async function apply() {
    state.asking = true;
    state.failed = null;
    say(`Applying ${state.chosen}`);
    show();
    try {
        await state.bus.use(state.chosen);
        say(`${state.chosen} is on the GPUs.`);
    } catch (error) {
        state.failed = refusal(error);
    }
    state.asking = false;
    state.fitted = "";
    state.failedAt = null;
    await look();
}

async function release(lease) {
    try {
        await state.bus.release(lease);
        say(`${lease} was released.`);
    } catch (error) {
        say(refusal(error).reason);
        redraw($("health"), refusal(error), ({ reason, hint }) => draw.notice("danger", reason, hint, "alert"));
        return;
    }
    await look();
}

function show() {
    const now = state.now;
    $("access").textContent = state.admin ? "" : "Read-only: changes need administrative access.";
    document.body.classList.toggle("gone", Boolean(state.gone));
    if (state.gone) redraw($("health"), state.gone, ({ reason, hint }) => draw.notice("danger", reason, hint, "alert"));
    if (!now) return;
    const { health, problems, warnings, busy, selected, applied, source } = now;
    document.body.classList.toggle("empty", now.empty);
    if (!state.gone) redraw($("health"), { health, problems, warnings, busy, selected, applied, source }, draw.health);
    redraw($("run"), state.gone ? null : now.run, draw.run);
    redraw($("legend"), now.gpus, draw.legend);
    redraw($("gpus"), now.gpus, gpus => gpus.map(draw.gpu));
    redraw($("profiles"), { names: now.profiles, selected, applied }, data => draw.profiles(data, state.chosen, choose));
    draw.fitting(now.profiles, state.fits);
    redraw($("plan"), {
        chosen: state.chosen, plan: state.plan, refused: state.refused, failed: state.failed,
        busy: state.asking || now.busy, admin: state.admin && !state.gone, selected,
    }, data => draw.plan(data, apply));
    redraw($("clients"), now.clients, draw.clients);
    redraw($("partitions"), now.gpus, draw.partitions);
    redraw($("leases"), { list: now.leases, admin: state.admin && !state.gone }, data => draw.leases(data, release));
    redraw($("holders"), now.holders, draw.holders);
    redraw($("queue"), now.queue, draw.queue);
    redraw($("history"), state.past, draw.history);
}

// begin connects again, with the current access.
function begin(cockpit, admin) {
    state.bus?.close();
    state.admin = admin;
    state.bus = connect(cockpit, look);
    state.fitted = "";
    look();
}

follow(window);
$("look").addEventListener("click", () => { state.fitted = ""; look(); });
const cockpit = window.cockpit;
document.addEventListener("click", event => {
    const link = event.target.closest("a[data-jump]");
    if (!link) return;
    event.preventDefault();
    cockpit.jump(link.dataset.jump);
});
const permission = cockpit.permission({ admin: true });
permission.addEventListener("changed", () => begin(cockpit, Boolean(permission.allowed)));
begin(cockpit, Boolean(permission.allowed));
