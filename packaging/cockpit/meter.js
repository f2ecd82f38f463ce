// The repeated measurement of the partitions' use. Each one makes the driver query the GPUs, so there is
// none while the page is not visible. The timer goes on, since the event of its return can be missed.

const usageInterval = 10_000; // ms

// meter calls measure() now, when the page becomes visible, and usageInterval after each result.
export function meter(window, cockpit, measure) {
    let timer, running = false;
    const hidden = () => cockpit.hidden || window.document.visibilityState === "hidden";
    async function tick() {
        window.clearTimeout(timer);
        if (running) return;
        running = true;
        if (!hidden()) await measure().catch(() => {}); // the state shows why dcm does not answer
        running = false;
        timer = window.setTimeout(tick, usageInterval);
    }
    cockpit.addEventListener("visibilitychange", tick);
    window.document.addEventListener("visibilitychange", tick);
    tick();
    return tick;
}
