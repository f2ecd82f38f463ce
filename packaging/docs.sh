#!/bin/sh
# docs.sh DIR: write the manual as HTML to DIR, with an index of all pages and sections. It needs mandoc.
set -eu
cd "$(dirname "$0")/.."

out=${1:?usage: docs.sh DIR}
command -v mandoc >/dev/null || { echo "docs.sh: no mandoc: install the package mandoc" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"

escaped() { sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g'; }

# about prints the description of a page from its section NAME.
about() { sed -n '/^\.SH NAME$/{n;s/^.* \\- //;s/\\-/-/g;p;q}' "$1" | escaped; }

# headings prints the sections of a page, one on a line, without those that every page has.
headings() { sed -n 's/^\.SH //p' "$1" | sed 's/\\-/-/g; s/\\(aq/'"'"'/g; s/"//g' | grep -vx 'NAME\|SYNOPSIS\|DESCRIPTION\|SEE ALSO' | escaped; }

cat >"$out/style.css" <<'END'
body { max-width: 60em; margin: 1em auto; padding: 0 1em; font: 1em/1.5 sans-serif; color: #222; background: #fff; }
pre, code, table.head, table.foot { font-family: monospace; }
pre { padding: .5em 1em; overflow-x: auto; background: #f3f3f3; }
table.head, table.foot { width: 100%; color: #666; }
td.head-vol, td.foot-date { text-align: center; }
td.head-rtitle, td.foot-os { text-align: right; }
li.none { display: none; }
@media (prefers-color-scheme: dark) {
	body { color: #ddd; background: #181818; }
	pre { background: #262626; }
	a { color: #8bf; }
}
END

list=
for page in packaging/man/*.[1-8]; do
	name=${page##*/}
	# A page of one line shows another page.
	if [ "$(wc -l <"$page")" = 1 ]; then
		target=$(sed -n 's|^\.so man[0-9]/||p' "$page")
		ln -s "$target.html" "$out/$name.html"
		continue
	fi
	mandoc -T html -O "style=style.css,man=%N.%S.html,toc" "$page" >"$out/$name.html"
	list="$list<li><a href=\"$name.html\">${name%.*}(${name##*.})</a>: $(about "$page")<br><small>$(headings "$page" | paste -s -d ',' | sed 's/,/, /g')</small></li>
"
done

cat >"$out/index.html" <<END
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>dcm: the manual</title>
<link rel="stylesheet" href="style.css">
<h1>dcm: the manual</h1>
<p><label>Search: <input type="search" id="words" autofocus></label>
<ul id="pages">
$list</ul>
<script>
"use strict";
const words = document.getElementById("words");
words.addEventListener("input", () => {
	const wanted = words.value.toLowerCase().split(/\s+/);
	for (const page of document.querySelectorAll("#pages li")) {
		const text = page.textContent.toLowerCase();
		page.classList.toggle("none", !wanted.every((word) => text.includes(word)));
	}
});
</script>
</html>
END

# A name of a page with its section becomes a link, and every link must lead to a file.
links=
for page in "$out"/*.[1-8].html; do
	file=${page##*/} name=${page##*/}
	name=${name%.html}
	links="$links;s|<b>${name%.*}</b>(${name##*.})|<a href=\"$file\">&</a>|g"
done
for page in "$out"/*.html; do
	[ ! -L "$page" ] || continue
	sed -i "${links#;}" "$page"
	grep -o 'href="[^"#:]*\.html' "$page" | sort -u | sed 's/^href="//' | while read -r target; do
		[ -e "$out/$target" ] || { echo "docs.sh: ${page##*/}: no page $target" >&2; exit 1; }
	done
done
echo "wrote $(find "$out" -name '*.html' | wc -l) pages to $out"
