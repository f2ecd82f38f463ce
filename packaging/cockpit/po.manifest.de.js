// The name in Cockpit's menu, in German.
cockpit.locale({
    "": { "plural-forms": n => n !== 1, "language": "de", "language-direction": "ltr" },
    "GPU partitions": [null, "GPU-Partitionen"],
});
