// Texts in the user's language. The English text is the key of a translation, as in Cockpit.

let gettext = text => text;
let ngettext = (one, many, n) => (n === 1 ? one : many);
let language; // undefined: the browser's

// translate uses Cockpit's translations, which po.js has loaded, from now on.
export function translate(cockpit) {
    gettext = cockpit.gettext;
    ngettext = cockpit.ngettext;
    language = cockpit.language?.replace("_", "-");
}

const fill = (text, values) => text.replace(/\$(\d)/g, (_, i) => values[i]);

// t translates a text and replaces $0, $1, ... in it.
export const t = (text, ...values) => fill(gettext(text), values);

// n translates a text with a number, which replaces $0.
export const n = (one, many, number) => fill(ngettext(one, many, number), [number]);

// joined joins the names of partitions, those of each GPU as a list of ranges, as dcm lease list does:
// "0000:05:00.0-[0-3,6]".
export function joined(names) {
    const gpus = new Map();
    for (const name of names) {
        const [, gpu, index] = /^(.*)-(\d+)$/.exec(name) || [null, name, ""];
        gpus.set(gpu, [...(gpus.get(gpu) || []), Number(index)]);
    }
    return [...gpus].map(([gpu, list]) => (list.length > 1 ? `${gpu}-[${ranges(list)}]` : names.find(name => name === gpu) || `${gpu}-${list[0]}`));
}

// ranges joins numbers: "0-3,6".
function ranges(list) {
    const out = [];
    for (const i of list.sort((a, b) => a - b)) {
        if (out.length && out.at(-1)[1] === i - 1) out.at(-1)[1] = i;
        else out.push([i, i]);
    }
    return out.map(([first, last]) => (first === last ? first : `${first}-${last}`)).join(",");
}

export const time = iso => new Date(iso).toLocaleString(language);
