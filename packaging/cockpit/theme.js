// Light or dark, as selected in Cockpit's menu, otherwise as in the system.

const key = "shell:style";

export const dark = (chosen, system) => chosen === "dark" || (chosen !== "light" && system);

export function follow(window) {
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const set = chosen => window.document.documentElement.classList.toggle("pf-v6-theme-dark", dark(chosen, system.matches));
    const stored = () => set(window.localStorage.getItem(key) || "auto");
    window.addEventListener("storage", event => event.key === key && stored());
    window.addEventListener("cockpit-style", event => event.detail && set(event.detail.style));
    system.addEventListener("change", stored);
    stored();
}
