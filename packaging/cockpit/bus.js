// dcm on the system bus, through Cockpit's channel. With administrative access it is
// root's channel, otherwise the user's own, which can only read.

const name = "org.deviceconfig.Manager1";
const path = "/org/deviceconfig/Manager1";
const daemon = "org.freedesktop.DBus";
const properties = "org.freedesktop.DBus.Properties";

// A change takes minutes if the driver is reloaded. A query is limited by the daemon, which must answer within
// a minute.
const patience = 15 * 60 * 1000, queryPatience = 2 * 60 * 1000;

// The daemon and the bus refuse a call if the user makes too many. The daemon permits two queries per second on average.
const refused = "org.freedesktop.DBus.Error.LimitsExceeded", attempts = 10;

// repeated calls again after a pause if the call was refused for the number of calls. It was not executed then.
async function repeated(pause, call) {
    for (let left = attempts; ; left--) {
        try {
            return await call();
        } catch (error) {
            if (error.name !== refused || left === 1) throw error;
        }
        await new Promise(done => setTimeout(done, pause));
    }
}

// connect calls changed() when the state of dcm changes, and when dcm starts or stops. pause, in ms, is the time before
// a refused call is repeated.
export function connect(cockpit, changed, pause = 1000) {
    let client, closed, owner = "";
    function open() {
        const own = cockpit.dbus(name, { bus: "system", superuser: "try" });
        [client, closed] = [own, false];
        own.subscribe({ interface: properties, path_namespace: path }, changed);
        own.subscribe({ interface: "org.freedesktop.DBus.ObjectManager", path }, changed);
        own.addEventListener("owner", changed);
        own.addEventListener("close", (event, options) => {
            if (own !== client || !options || !options.problem) return;
            closed = true;
            if (owner) open();
            changed();
        });
    }
    // Cockpit closes a channel that is opened while dcm does not run.
    const names = cockpit.dbus(daemon, { bus: "system" });
    names.subscribe({ interface: daemon, path: "/org/freedesktop/DBus", member: "NameOwnerChanged", arg0: name }, (from, interfaceName, signal, [, , now]) => {
        owner = now;
        if (!owner || !closed) return;
        open();
        changed();
    });
    open();
    const call = (method, type, args, options = {}) =>
        repeated(pause, () => client.call(path, name, method, args, { type, timeout: queryPatience, ...options }));
    return {
        account: async () => JSON.parse((await call("Account", "", []))[0]),
        history: async () => JSON.parse((await call("History", "", []))[0]),
        plans: async () => JSON.parse((await call("Plans", "", []))[0]),
        usage: async () => JSON.parse((await call("Usage", "", []))[0]),
        queue: async () => JSON.parse((await call("Queue", "", []))[0]),
        use: (profile, untilReboot) => call(untilReboot ? "UseUntilReboot" : "Use", "s", [profile], { timeout: patience }),
        release: lease => call("Release", "s", [lease]),
        close() {
            names.close();
            client.close();
        },
    };
}
