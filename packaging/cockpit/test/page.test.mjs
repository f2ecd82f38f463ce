// What the page makes of accounts, plans and refusals, without a browser: node --test

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { Script } from "node:vm";

const source = name => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");

// The page's modules have no package.json with their type, so each is loaded as the data of an address.
const address = name => "data:text/javascript," + encodeURIComponent(source(name).replace(/from "\.\/([^"]+)"/g, (_, other) => `from "${address(other)}"`));
const load = name => import(address(name));

const { model, bytes, kind, planned, shape, tone } = await load("model.js");
const { duration, effort, news, past, plans, refusal } = await load("words.js");
const { dark } = await load("theme.js");
const { differs, short, total, uses } = await load("usage.js");
const { joined } = await load("text.js");
const { connect } = await load("bus.js");

const account = () => ({
    health: { state: "waiting", code: 2, summary: "A process blocks the change", in_sync: false },
    profile: { in_force: "cpx-nps4", selected: "cpx-nps4", applied: "", source: "/etc/dcm/dcm.toml:1", defined: ["cpx-nps4", "spx-nps1"] },
    problems: [{ state: "waiting", text: "0000:05:00.0 is held", hint: "end it" }],
    warnings: [],
    daemon: { phase: "waiting" },
    gpus: [
        { index: 0, address: "0000:05:00.0", model: "MI300X", mode: { compute: "CPX", memory: "NPS4" }, want: { compute: "CPX", memory: "NPS4" }, partitions: 4 },
        { index: -1, address: "0000:99:00.0", model: "", why: "no driver", mode: {}, want: {} },
    ],
    partitions: [0, 1, 2, 3].map(index => ({
        name: `0000:05:00.0-${index}`, gpu: "0000:05:00.0", index, mode: "CPX", render_node: `/dev/dri/renderD${128 + index}`,
        card: `/dev/dri/card${index}`, memory_domain: index >> 1, memory_bytes: 24 * 2 ** 30, memory_share: 0.25, compute_share: 0.25,
    })),
    reservations: [{ name: "llm", unit: "llm.service", partitions: ["0000:05:00.0-3"] }],
    holders: [{ pid: 7, command: "<b>python3</b>", unit: "training.service", devices: ["/dev/kfd", "/dev/dri/renderD129"], in_the_way: true }],
    clients: [{ unit: "a.service", load: "loaded", active: "active", sub: "running", back: true }, { unit: "b.service", load: "not-found", active: "inactive" }],
    expected: { missing: ["0000:26:00.0"] },
});

test("settings are shown if they are not the driver's default", () => {
    const a = account();
    Object.assign(a.gpus[0].mode, { memory_allocation: "all", isolation: "on" });
    Object.assign(a.gpus[0].want, { memory_allocation: "capping" });
    const [card] = model(a).gpus;
    assert.equal(card.mode, "CPX/NPS4 (memory all) (isolated)");
    assert.equal(card.want, "CPX/NPS4");
});

test("each module of the page is valid JavaScript", () => {
    for (const name of readdirSync(new URL("..", import.meta.url)).filter(f => f.endsWith(".js"))) {
        const { stderr } = spawnSync(process.execPath, ["--input-type=module", "--check"], { input: source(name), encoding: "utf8" });
        assert.equal(stderr, "", name);
    }
});

test("a GPU is divided as its memory is, and says who holds what", () => {
    const m = model(account());
    const [gpu, alone] = m.gpus;
    assert.deepEqual(gpu.domains.map(d => d.cells.map(c => c.index)), [[0, 1], [2, 3]]);
    assert.equal(gpu.mode, "CPX/NPS4");
    assert.equal(gpu.held, 1);
    assert.equal(gpu.domains[0].cells[1].label, "Partition 1, CPX, 24 GiB, /dev/dri/renderD129, held by <b>python3</b> (7)");
    assert.equal(gpu.domains[1].cells[1].label, "Partition 3, CPX, 24 GiB, /dev/dri/renderD131, free, reserved for llm.service");
    assert.equal(alone.why, "no driver");
    assert.deepEqual(alone.domains, []);
});

test("a process with a driver open and no partition is shown on its GPUs", () => {
    const a = account();
    a.gpus[0].vendor = "amd";
    const open = () => model(a).gpus[0].open;
    assert.deepEqual(open(), []);
    a.holders.push({ pid: 8, command: "exporter", devices: ["/dev/kfd"] }, { pid: 9, command: "another", devices: ["/dev/kfd"] }, { pid: 10, command: "smi", devices: ["/dev/nvidiactl"] }, { pid: 11, command: "a lease's", devices: [] });
    assert.deepEqual(open(), ["/dev/kfd"]);
    a.gpus[0].vendor = "nvidia";
    assert.deepEqual(open(), ["/dev/nvidiactl"]);
});

test("health, clients and holders have texts", () => {
    const m = model(account());
    assert.deepEqual(m.health, { state: "waiting", summary: "A process blocks the change", tone: "danger" });
    assert.deepEqual(m.clients.map(c => c.state), ["active (running)", "not installed"]);
    assert.deepEqual(m.clients.map(c => c.idle), [false, true]); // what did not run is not restored
    assert.equal(m.holders[0].way, true);
    assert.deepEqual([0, 1, 2, 3, undefined].map(tone), ["good", "warning", "danger", "unknown", "unknown"]);
});

test("requests that wait are listed with their size and limit", () => {
    const a = account();
    a.queue = [
        { position: 1, id: 4711, uid: 1000, user: "ada", partitions: 58, gpus: 0, exclusive: false, share: 0, time: 7200, since: "2026-11-22T12:00:00Z", reason: "12 of 58 are free" },
        { position: 2, id: 4712, uid: 1001, user: "bob", partitions: 0, gpus: 1, exclusive: true, share: 0, time: 0, since: "2026-11-22T12:01:00Z", reason: "" },
    ];
    assert.deepEqual(model(a).queue.map(q => [q.position, q.id, q.user, q.size, q.time]), [
        [1, 4711, "ada", "58 partitions", 7200], [2, 4712, "bob", "1 GPU, exclusive", 0],
    ]);
    assert.deepEqual(model(account()).queue, []);
});

// part is a partition of Usage().
const part = (name, more = {}) => ({ name, gpu: "a", mode: "CPX", memory_bytes: 24 * 2 ** 30, memory_used_bytes: 12.5 * 2 ** 30, busy_percent: 70.4, holders: [], processes: [], ...more });

test("the use of a partition has the numbers of dcm top", () => {
    const [one] = uses({ partitions: [part("a-0")] }).values();
    assert.deepEqual([one.memory, one.load, short(one)], ["12.5 GiB of 24 GiB used", "70 %", "12.5 GiB of 24 GiB used, 70 % busy"]);
    const [idle] = uses({ partitions: [part("a-0", { memory_used_bytes: 0, busy_percent: 0 })] }).values();
    assert.equal(short(idle), "0 MiB of 24 GiB used, 0 % busy");
    const [none] = uses({ partitions: [part("a-0", { memory_used_bytes: null, busy_percent: null, unknown: { memory_used_bytes: "the driver is too old" } })] }).values();
    assert.deepEqual([none.used, none.busy, none.memory, none.load, short(none)], [null, null, "unknown: the driver is too old", "unknown: not reported", ""]);
});

test("a busy counter needs two results without a restart of the driver", () => {
    const counted = (sum, cycles, more) => ({ partitions: [part("a-0", { busy_percent: null, busy_sum: sum, busy_cycles: cycles, ...more })] });
    const busy = (now, before) => [...uses(now, before).values()][0].busy;
    assert.equal(busy(counted(1000, 100)), null);
    assert.equal(busy(counted(1500, 110), counted(1000, 100)), 50);
    assert.equal(busy(counted(900, 110), counted(1000, 100)), null);
    assert.equal(busy(counted(1500, 90), counted(1000, 100)), null);
    assert.equal(busy(counted(9000, 110), counted(1000, 100)), null);
    assert.equal(busy(counted(1500, 110, { mode: "SPX" }), counted(1000, 100)), null);
});

test("the use of a GPU is that of its partitions", () => {
    const all = uses({ partitions: [part("a-0"), part("a-1", { busy_percent: null }), part("a-2", { busy_percent: 10, memory_used_bytes: 0 })] });
    assert.equal(short(total([...all.values()])), "25 GiB of 72 GiB used, 40 % busy");
    const unknown = uses({ partitions: [part("a-0"), part("a-1", { memory_used_bytes: null })] });
    assert.equal(total([...unknown.values()]).used, null);
});

test("a measurement is compared with the account", () => {
    const a = account();
    a.partitions[1].holders = ["training.service", "reservation llm"];
    const queue = [{ id: 5 }], m = { ...model(a), queue };
    const measured = (holders, ...pids) => uses({ partitions: [part("0000:05:00.0-1", { holders, processes: pids.map(pid => ({ pid })) })] });
    assert.equal(differs(m, measured(["reservation llm", "training.service"], 7), queue), "");
    assert.equal(differs(m, measured(["reservation llm", "training.service"]), queue), "");
    const [other, process, waits] = [differs(m, measured(["reservation llm"], 7), queue), differs(m, measured(["reservation llm", "training.service"], 7, 8), queue), differs(m, new Map(), [])];
    assert.equal(new Set(["", other, process, waits]).size, 4);
});

test("a partition that is neither held nor reserved is free for a lease", () => assert.equal(model(account()).free, 2));

test("a GPU on its way says where to", () => {
    const a = account();
    a.gpus[0].mode = { compute: "SPX", memory: "NPS1" };
    assert.equal(model(a).gpus[0].want, "CPX/NPS4");
    a.gpus[0].skipped = true;
    assert.equal(model(a).gpus[0].want, "");
});

test("a missing GPU keeps its place and number", () => {
    const a = account();
    a.gpus = [0, 1, 3].map(index => ({ index, vendor: "amd", address: `0000:0${index}:00.0`, mode: {}, want: {} }));
    a.expected.lost = [{ index: 2, vendor: "amd", address: "0000:02:00.0", model: "MI300X", since: "2026-11-22T10:34:00Z" }, { index: -1, vendor: "", address: "", model: "" }];
    assert.deepEqual(model(a).gpus.map(g => [g.title, g.lost, g.since]), [
        ["GPU 0", false, ""], ["GPU 1", false, ""], ["GPU 2", true, "2026-11-22T10:34:00Z"], ["GPU 3", false, ""], ["GPU", true, ""],
    ]);
    a.gpus.push({ index: 0, vendor: "nvidia", address: "0000:9d:00.0", mode: {}, want: {} });
    assert.deepEqual(model(a).gpus.map(g => g.title).slice(-2), ["NVIDIA 0", "GPU"]);
});

test("a leased partition is held before its nodes are open", () => {
    const a = account();
    a.leases = [{ lease: "dcm-lease-0-1.scope", user: "ada", command: "train", partitions: ["0000:05:00.0-0"], share: 0, exclusive: true, since: "2026-11-22T10:34:00Z", until: null }];
    a.holders.push({ pid: 8, command: "train", unit: "dcm-lease-0-1.scope", devices: ["/dev/dri/renderD128"] });
    const m = model(a), [cell] = m.gpus[0].domains[0].cells;
    assert.deepEqual(cell.who, ["ada: train (dcm-lease-0-1.scope)"]);
    assert.equal(m.gpus[0].held, 2);
    assert.deepEqual([m.leases[0].size, m.leases[0].until], ["0000:05:00.0-0, exclusive", ""]);
});

test("a partition of an active service is held before its nodes are open", () => {
    const a = account();
    a.partitions[3].holders = ["llm.service"];
    a.partitions[0].holders = ["reservation llm"];
    a.partitions[1].holders = ["training.service"];
    a.partitions[3].holders_since = { "llm.service": "2026-11-22T10:34:00Z" };
    const [[first, second], [, last]] = model(a).gpus[0].domains.map(d => d.cells);
    assert.deepEqual([first.held, second.who, last.who, last.kept], [false, ["training.service"], ["llm.service"], ["llm.service"]]);
    assert.deepEqual([second.units, last.units], [[{ unit: "training.service", since: "" }], [{ unit: "llm.service", since: "2026-11-22T10:34:00Z" }]]);
});

test("a host without GPUs is empty, and one whose GPUs are missing is not", () => {
    const none = { profile: {}, gpus: [{ index: -1, address: "0000:99:00.0", why: "no driver", mode: {}, want: {} }] };
    assert.equal(model(none).empty, true);
    assert.equal(model({ ...none, health: { state: "idle", code: 0 } }).health.tone, "idle");
    assert.equal(model({ ...none, expected: { missing: ["0000:05:00.0"] } }).empty, false);
    assert.equal(model(account()).empty, false);
});

test("a GPU of slices is as well", () => {
    assert.equal(shape({ slices: ["3g.40gb", "1g.10gb"] }), "3g.40gb, 1g.10gb");
    assert.equal(shape({ slices: ["3g.40gb", "1g.10gb", "1g.10gb"] }), "3g.40gb, 2 × 1g.10gb");
    assert.equal(shape({ whole: "MIG off" }), "MIG off");
    assert.deepEqual(["CPX/NPS4", "SPX", "1g.10gb", "?"].map(kind), ["parts-8", "parts-1", "parts-slice", "parts-other"]);
});

test("an account of an older or another dcm does not break the page", () => {
    const m = model({ profile: {} });
    assert.deepEqual([m.gpus, m.clients, m.holders, m.run, m.health.tone], [[], [], [], null, "unknown"]);
});

test("a run has a text for each step", () => {
    const a = account();
    a.last_run = {
        profile: "cpx-nps4", result: "running", started: "2026-11-21T12:00:00Z", steps: [
            { kind: "memory", hive: ["a", "b"], from: "NPS1", to: "NPS4", finished: "2026-11-21T12:00:01Z" },
            { kind: "reload", started: "2026-11-21T12:00:01Z" },
            { kind: "compute", gpu: "a", to: "SPX", undo: true },
        ],
    };
    const m = model(a);
    assert.equal(m.busy, true);
    a.profile.applied = "cpx-nps4";
    assert.deepEqual([model(a).selected, model(a).applied], ["cpx-nps4", ""]);
    a.health = { state: "changing", code: 1, summary: "A change is under way" };
    assert.equal(model(a).health.tone, "busy");
    assert.deepEqual(m.run.steps.map(s => [s.text, s.begun, s.over]), [
        ["2 GPUs: requested NPS4", true, true], ["reloading the driver", true, false], ["undo: a: switch to SPX", false, false],
    ]);
    assert.deepEqual([m.run.done, m.gpus[0].reloading], [1, true]);
    Object.assign(a.profile, { in_force: "spx", applied: "" });
    const failed = { kind: "compute", gpu: "a", to: "SPX", started: "2026-11-21T12:00:00Z", finished: "2026-11-21T12:00:02Z", error: "busy" };
    a.last_run = { profile: "spx", result: "failed", steps: [failed], gpus: [{ address: "0000:05:00.0", error: "busy" }] };
    assert.deepEqual([model(a).run.steps[0].text, model(a).run.steps[0].took, model(a).gpus[0].error], ["a: could not be switched to SPX", 2000, "busy"]);
});

test("a run stops the services first and starts them last", () => {
    const a = account();
    a.health = { state: "changing", code: 1 };
    a.daemon = { phase: "applying", since: "2026-11-21T12:00:00Z" };
    a.clients[0].back = false;
    a.last_run = { profile: "old", result: "applied", started: "2026-11-21T11:00:00Z", steps: [{ kind: "reload", finished: "2026-11-21T11:00:01Z" }] };
    const seen = () => model(a).run.steps.map(s => [s.text, s.begun, s.over, s.took]);
    assert.deepEqual([model(a).run.profile, model(a).run.running], ["cpx-nps4", true]);
    assert.deepEqual(seen(), [["stopping the services", true, false, null], ["start the services", false, false, null]]);
    a.last_run = { profile: "cpx-nps4", result: "running", started: "2026-11-21T12:00:00.3Z", steps: [{ kind: "reload", started: "2026-11-21T12:00:01Z" }] };
    assert.deepEqual(seen(), [["stopped the services", true, true, 300], ["reloading the driver", true, false, null], ["start the services", false, false, null]]);
    Object.assign(a.last_run, { result: "applied", finished: "2026-11-21T12:00:03Z" });
    assert.deepEqual([model(a).run.running, seen().at(-1)], [true, ["starting the services", true, false, null]]);
    a.daemon.phase = "in-sync";
    assert.equal(model(a).run.running, false);
});

test("the error of a GPU is history when the selected profile is on the GPUs", () => {
    const a = account();
    a.profile.in_force = "spx";
    a.last_run = { profile: "spx", result: "failed", gpus: [{ address: "0000:05:00.0", error: "busy" }] };
    assert.equal(model(a).gpus[0].error, "busy");
    a.profile.in_force = "dpx";
    assert.equal(model(a).gpus[0].error, "");
    Object.assign(a.profile, { in_force: "spx", applied: "spx" });
    assert.equal(model(a).gpus[0].error, "");
});

test("while the files have an error, the last good selection is shown", () => {
    const a = account();
    Object.assign(a.profile, { selected: "", in_force: "cpx-nps4", applied: "cpx-nps4", broken: "dcm.toml:1: not TOML" });
    assert.deepEqual([model(a).selected, model(a).broken], ["cpx-nps4", "dcm.toml:1: not TOML"]);
});

test("a client is stopped on purpose during a change", () => {
    const a = account();
    a.clients[0].back = false;
    assert.deepEqual(model(a).clients.map(c => [c.state, c.stopped]), [["active (running)", false], ["not installed", false]]);
    a.last_run = { profile: "cpx", result: "running" };
    assert.deepEqual(model(a).clients.map(c => [c.state, c.stopped]), [["stopped for the change", true], ["not installed", false]]);
});

test("a GPU that a run has switched is drawn so before the run is over", () => {
    const a = account();
    const want = { compute: "DPX", memory: "NPS2" };
    a.last_run = { profile: "dpx", result: "running", gpus: [{ address: "0000:05:00.0", now: { compute: "CPX", memory: "NPS4" }, want }] };
    assert.deepEqual([model(a).gpus[0].mode, model(a).gpus[0].want], ["CPX/NPS4", "DPX/NPS2"]);
    a.last_run.gpus[0].now = want;
    const [gpu] = model(a).gpus;
    assert.deepEqual([gpu.mode, gpu.want], ["DPX/NPS2", ""]);
    assert.deepEqual(gpu.domains.map(d => d.cells.map(c => c.kind)), [["parts-2"], ["parts-2"]]);
    a.last_run.result = "applied";
    assert.equal(model(a).gpus[0].mode, "CPX/NPS4");
});

test("a GPU with MIG that a run changes is marked as one with modes", () => {
    const a = account(), mode = { slices: ["4g.40gb", "3g.40gb"] };
    Object.assign(a.gpus[0], { vendor: "nvidia", mode, want: mode });
    const fill = { kind: "mig-fill", gpu: "0000:05:00.0", from: "MIG on, empty", to: "2 × 2g.20gb, 3 × 1g.10gb", mig: "2g.20gb@0 2g.20gb@2" };
    const report = { address: "0000:05:00.0", now: { mig: "3g.40gb@4 4g.40gb@0" }, want: { mig: "1g.10gb 1g.10gb 1g.10gb 2g.20gb 2g.20gb" } };
    a.last_run = { profile: "small", result: "running", started: "2026-11-21T12:00:00Z", steps: [fill], gpus: [report] };
    const seen = () => model(a).gpus.map(g => [g.mode, g.want, g.count])[0];
    assert.deepEqual(seen(), ["4g.40gb, 3g.40gb", "2 × 2g.20gb, 3 × 1g.10gb", 4]);
    assert.equal(model(a).run.steps[0].text, "0000:05:00.0: create 2 × 2g.20gb, 3 × 1g.10gb");
    report.now = { mig: "empty" };
    assert.deepEqual(seen(), ["MIG on, empty", "2 × 2g.20gb, 3 × 1g.10gb", 0]);
    report.now = { mig: "1g.10gb@6 2g.20gb@0 2g.20gb@2 1g.10gb@4 1g.10gb@5" };
    assert.deepEqual(seen(), ["2 × 2g.20gb, 3 × 1g.10gb", "", 5]);
    report.now = { mig: "off" };
    assert.deepEqual(seen(), ["MIG off", "2 × 2g.20gb, 3 × 1g.10gb", 1]);
    report.want = { mig: "1c.3g.40gb/2c.3g.40gb 3g.40gb" };
    assert.deepEqual(seen(), ["MIG off", "1c.3g.40gb/2c.3g.40gb, 3g.40gb", 1]);
});

test("the partitions of a GPU are joined", () => {
    assert.deepEqual(joined(["a-0", "a-1", "b-2", "a-3"]), ["a-[0-1,3]", "b-2"]);
    assert.deepEqual([joined([]), joined(["odd", "a-7"])], [[], ["odd", "a-7"]]);
});

// entry is an entry of Plans().
const entry = (profile, steps, more = {}) => ({ profile, steps, clients: [], reload: false, holders: [], left: [], rounds: [], gpus: [], ...more });
const compute = gpu => ({ kind: "compute", gpu, from: "SPX", to: "CPX" });

test("a plan has its restarts, and consecutive GPUs are one step", () => {
    const { cpx } = plans([entry("cpx", [compute("a"), compute("b")], { clients: ["x.service"] })]);
    assert.deepEqual([cpx.steps, cpx.restarts], [["switch 2 GPUs to CPX (now SPX)"], ["x.service"]]);
    assert.equal(effort(cpx), "switches GPUs, restarts 1 unit");
    const { nps4 } = plans([entry("nps4", [{ kind: "memory", gpu: "a", hive: ["a", "b"], from: "NPS1", to: "NPS4" }, { kind: "reload" }], { reload: true })]);
    assert.deepEqual(nps4.steps, ["request NPS4 for 2 GPUs (now NPS1)", "reload the driver"]);
    assert.equal(effort(nps4), "reloads the driver");
    assert.equal(effort(plans([entry("x", [])]).x), "no change");
    const { mig } = plans([entry("mig", [{ kind: "mig-clear", gpu: "a", from: "1g.10gb" }, { kind: "mig-fill", gpu: "a", to: "3g.40gb" }, { kind: "mig-fill", gpu: "b", to: "3g.40gb" }])]);
    assert.deepEqual(mig.steps, ["destroy instances of a (now 1g.10gb)", "create 3g.40gb on 2 GPUs"]);
});

test("a plan says whether it would be refused, and whether a retry may help", () => {
    const { cpx, odd } = plans([
        entry("cpx", [compute("a")], { refused: { text: "a is held", hint: "end it", transient: true } }),
        entry("odd", [], { error: { text: "no GPU has TPX" } }),
    ]);
    assert.deepEqual([cpx.refused, cpx.transient, effort(cpx)], [{ reason: "a is held", hint: "end it" }, true, "would be refused now"]);
    assert.deepEqual([odd.unfit, odd.refused, effort(odd)], [{ reason: "no GPU has TPX", hint: "" }, null, "cannot be applied"]);
});

test("a plan has a picture of the GPUs after it", () => {
    const gpu = (mode, partitions) => ({ address: "a", mode, partitions });
    const { x } = plans([entry("x", [compute("a")], { gpus: [gpu("CPX/NPS4", 8), gpu("CPX/NPS4", 8), gpu("SPX/NPS1", 1)] })]);
    assert.deepEqual(x.after, [{ mode: "CPX/NPS4", partitions: 8, gpus: 2 }, { mode: "SPX/NPS1", partitions: 1, gpus: 1 }]);
    assert.deepEqual(planned("CPX/NPS4").map(d => d.cells.length), [2, 2, 2, 2]);
    assert.deepEqual(planned("3g.40gb, 2 × 2g.20gb")[0].cells.map(c => c.kind), Array(3).fill("parts-slice"));
    assert.deepEqual(planned("MIG off"), []);
    assert.equal(plans([entry("m", [], { gpus: [gpu("3g.40gb, 2 × 2g.20gb", 3)] })]).m.after[0].mode, "3g.40gb, 2 × 2g.20gb");
});

test("a reservation without partitions has its reason", () => {
    const a = account();
    a.reservations = [
        { name: "llm", unit: "llm.service", wants: 1, partitions: ["0000:05:00.0-3"], exclusive: true, share: 0, reason: "1 of 0000:05:00.0" },
        { name: "big", unit: "", wants: 9, partitions: [], exclusive: false, share: 0, reason: "4 of 9 are free" },
    ];
    assert.deepEqual(model(a).reservations.map(r => [r.name, r.unit, r.partitions, r.reason]), [
        ["llm", "llm.service", "0000:05:00.0-3, exclusive", "1 of 0000:05:00.0"], ["big", "", "", "4 of 9 are free"],
    ]);
});

// texts returns the texts of the page that are translated, those with a number with their plural.
function texts() {
    const found = new Map();
    for (const name of readdirSync(new URL("..", import.meta.url)).filter(f => f.endsWith(".js") && !f.startsWith("po."))) {
        for (const [, one] of source(name).matchAll(/\bt\("((?:[^"\\]|\\.)*)"/g)) found.set(one, null);
        for (const [, one, many] of source(name).matchAll(/\bn\("([^"]*)", "([^"]*)"/g)) found.set(one, many);
    }
    for (const [, one] of source("index.html").matchAll(/(?:translate="yes">|aria-label=")([^<"]+)[<"]/g)) found.set(one, null);
    return found;
}

test("every text has a German one with the same values", () => {
    let german;
    new Script(source("po.de.js")).runInNewContext({ cockpit: { locale: all => (german = all) } });
    const { "": header, ...translated } = german;
    assert.equal(header.language, "de");
    const wanted = texts();
    assert.ok(wanted.size > 100);
    assert.deepEqual(Object.keys(translated).sort(), [...wanted.keys()].sort());
    const values = text => [...text.matchAll(/\$\d/g)].map(String).sort();
    for (const [one, [many, ...out]] of Object.entries(translated)) {
        assert.deepEqual([many, out.length], [wanted.get(one), many ? 2 : 1], one);
        for (const text of out) assert.deepEqual(values(text), values(one), one);
    }
});

test("a refusal is parted from its hint", () => {
    assert.deepEqual(refusal({ name: "org.deviceconfig.Manager1.Error.Failed", message: "a GPU is held\nhint: end it" }), { reason: "a GPU is held", hint: "end it" });
    assert.deepEqual(refusal({ name: "org.deviceconfig.Manager1.Error.Configuration", message: "one\ntwo" }), { reason: "one\ntwo", hint: "" });
    assert.equal(refusal({ name: "org.freedesktop.DBus.Error.ServiceUnknown" }).hint, "systemctl start dcm");
    assert.equal(refusal({ problem: "not-found" }).reason, "dcm.service is not running.");
    assert.equal(refusal({ name: "org.freedesktop.DBus.Error.AccessDenied", message: "no" }).hint, "Turn on administrative access.");
});

test("the history begins with the last run", () => {
    const [last, first] = past([
        { started: "2026-11-21T12:00:00Z", finished: "2026-11-21T12:00:00.4Z", result: "applied", profile: "cpx", changed: 8, gpus: 8, asked: { why: "dcm use", who: { user: "root", login: "ada" } } },
        { started: "2026-11-21T13:00:00Z", result: "running", profile: "spx", changed: 0, gpus: 0 },
    ]);
    assert.deepEqual([last.result, last.took, last.asked, last.changed], ["running", "", "", "-"]);
    assert.deepEqual([first.took, first.changed, first.asked], ["400 ms", "8 of 8", "dcm use by ada"]);
    assert.deepEqual([duration(1500), duration(90_000), duration(120_000), duration(7_200_000), duration(NaN)], ["1.5 s", "1 min 30 s", "2 min", "2 h", ""]);
    assert.equal(bytes(0), "");
});

test("a screen reader gets each step once", () => {
    const at = (steps, running = true) => ({ busy: running, health: { summary: running ? "changing" : "done" }, run: { profile: "cpx", running, steps } });
    const one = at([{ text: "reloading the driver" }]);
    assert.equal(news(null, one), "");
    assert.equal(news(at([]), one), "Applying cpx, step 1: reloading the driver");
    assert.equal(news(one, one), "");
    assert.equal(news(one, at([], false)), "done");
});

test("dark is what was chosen, or else the system's", () => {
    assert.deepEqual([dark("dark", false), dark("light", true), dark("auto", true), dark("auto", false)], [true, false, true, false]);
});

// Cockpit's bridge closes the channel of a name without an owner (cockpit/channels/dbus.py).
test("the page connects when dcm starts, also if it did not run before", async () => {
    const channels = [];
    const cockpit = {
        dbus(name) {
            const c = { name, rules: [], events: {}, closed: false };
            Object.assign(c, {
                subscribe: (rule, call) => c.rules.push([rule, call]),
                addEventListener: (event, call) => { c.events[event] = call; },
                call: async () => [JSON.stringify({ channel: channels.indexOf(c) })],
                close: () => { c.closed = true; },
            });
            channels.push(c);
            return c;
        },
    };
    const owned = owner => channels.find(c => c.name === "org.freedesktop.DBus").rules[0][1]("/", "", "", ["org.deviceconfig.Manager1", "", owner]);
    const ours = () => channels.filter(c => c.name === "org.deviceconfig.Manager1");
    let changes = 0;
    const bus = connect(cockpit, () => changes++);
    ours()[0].events.close({}, { problem: "not-found" });
    assert.deepEqual([ours().length, changes], [1, 1]);
    owned(":1.7");
    assert.deepEqual([ours().length, changes], [2, 2]);
    assert.equal((await bus.account()).channel, channels.indexOf(ours()[1]));
    ours()[1].events.close({}, { problem: "not-found" }); // it was opened before dcm had the name
    assert.deepEqual([ours().length, changes], [3, 3]);
    owned("");
    owned(":1.8"); // the open channel itself reports the new owner
    assert.equal(ours().length, 3);
    bus.close();
    assert.ok(channels.filter(c => c.closed).length === 2);
});

test("a call that is refused for the number of calls is repeated", async () => {
    const limit = Object.assign(new Error("too many"), { name: "org.freedesktop.DBus.Error.LimitsExceeded" });
    const denied = Object.assign(new Error("no"), { name: "org.freedesktop.DBus.Error.AccessDenied" });
    let answers = [limit, limit, ["[]"]], calls = 0;
    const channel = { subscribe() {}, addEventListener() {}, close() {}, call: async () => {
        const answer = answers[calls++];
        if (answer instanceof Error) throw answer;
        return answer;
    } };
    const bus = connect({ dbus: () => channel }, () => {}, 0);
    assert.deepEqual([await bus.history(), calls], [[], 3]);
    [answers, calls] = [[denied], 0];
    await assert.rejects(bus.history(), denied);
    assert.equal(calls, 1);
});
