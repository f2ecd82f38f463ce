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

export const time = iso => new Date(iso).toLocaleString(language);
