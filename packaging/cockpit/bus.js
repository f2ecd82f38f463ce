// dcm on the system bus, through Cockpit's channel. With administrative access it is
// root's channel, otherwise the user's own, which can only read.

const name = "org.deviceconfig.Manager1";
const path = "/org/deviceconfig/Manager1";
const properties = "org.freedesktop.DBus.Properties";

// A change takes minutes if the driver is reloaded.
const patience = 15 * 60 * 1000;

// connect calls changed() when the state of dcm changes, and when dcm starts or stops.
export function connect(cockpit, changed) {
    const client = cockpit.dbus(name, { bus: "system", superuser: "try" });
    const call = (method, type, args, options = {}) =>
        client.call(path, name, method, args, { type, ...options });
    client.subscribe({ interface: properties, path_namespace: path }, changed);
    client.subscribe({ interface: "org.freedesktop.DBus.ObjectManager", path }, changed);
    client.addEventListener("owner", changed);
    client.addEventListener("close", (event, options) => options && options.problem && changed());
    return {
        account: async () => JSON.parse((await call("Account", "", []))[0]),
        history: async () => JSON.parse((await call("History", "", []))[0]),
        plans: async () => JSON.parse((await call("Plans", "", []))[0]),
        usage: async () => JSON.parse((await call("Usage", "", []))[0]),
        queue: async () => JSON.parse((await call("Queue", "", []))[0]),
        use: (profile, untilReboot) => call(untilReboot ? "UseUntilReboot" : "Use", "s", [profile], { timeout: patience }),
        release: lease => call("Release", "s", [lease]),
        close: () => client.close(),
    };
}
