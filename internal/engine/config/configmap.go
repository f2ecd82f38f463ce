package config

import (
	"regexp"
	"strconv"
	"strings"
)

// inConfigMap is the key of a ConfigMap's data that holds the document.
const inConfigMap = "config.json"

// readDocument reads a config.json, or the ConfigMap, in YAML or JSON, that holds
// one.
func readDocument(file, text string, yaml YAML) (*node, *Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return fromYAML(file, text, yaml)
	}
	root, broken := parseJSON(lines(file, text, 1))
	if broken != nil || root.at("data") == nil || root.at("gpu-config-profiles") != nil {
		return root, broken
	}
	held, broken := heldIn(root)
	if broken != nil {
		return nil, broken
	}
	return parseJSON(source{file: file, text: held.value.(string), first: held.line})
}

// heldIn returns the data of a ConfigMap that holds the document.
func heldIn(root *node) (*node, *Problem) {
	if kind := root.at("kind"); kind == nil || kind.value != "ConfigMap" {
		return nil, &Problem{File: root.file, Line: root.line, Key: "kind", Text: "neither a config.json nor a ConfigMap", Accepted: `kind "ConfigMap" with the key config.json in data`}
	}
	data := root.at("data")
	held := root.at("data", inConfigMap)
	if held == nil {
		line := root.line
		if data != nil {
			line = data.line
		}
		f := notOne("the ConfigMap does not hold a config.json", inConfigMap, tables(data).keys())
		return nil, &Problem{File: root.file, Line: line, Key: "data", Text: f.text, Accepted: inConfigMap, Suggestion: f.suggestion}
	}
	if _, ok := held.value.(string); !ok {
		f := wrongType("a string that holds JSON", held)
		return nil, &Problem{File: root.file, Line: held.line, Key: dotted("data", inConfigMap), Text: f.text}
	}
	return held, nil
}

// fromYAML reads a ConfigMap written in YAML.
func fromYAML(file, text string, yaml YAML) (*node, *Problem) {
	if yaml == nil {
		return nil, &Problem{File: file, Line: 1, Text: "not JSON", Accepted: "the Kubernetes form in JSON; `dcm import` turns a ConfigMap in YAML into TOML"}
	}
	if line := secondDocument(text); line > 0 {
		return nil, &Problem{File: file, Line: line, Text: "a second YAML document", Accepted: "one ConfigMap"}
	}
	js, err := yaml([]byte(text))
	if err != nil {
		line, why := lineIn(err.Error())
		// The decoder counts one line too many at the end of the text.
		line = min(line, 1+strings.Count(text, "\n"))
		return nil, &Problem{File: file, Line: line, Text: "neither JSON nor YAML: " + oneLine(why)}
	}
	// The lines of the YAML are lost here; the ones that matter are those of the
	// document inside.
	root, broken := parseJSON(source{file: file, text: string(js), first: 1})
	if broken != nil {
		return nil, broken
	}
	held, broken := heldIn(root)
	if broken != nil {
		return nil, broken
	}
	return parseJSON(block(file, text, held.value.(string)))
}

// block finds where in the YAML the document stands. As a literal block, which is
// how everybody writes it, it has the lines of the file.
func block(file, text, held string) source {
	at := regexp.MustCompile(`(?m)^[ \t]*["']?config\.json["']?[ \t]*:.*$`).FindStringIndex(text)
	if at == nil {
		return source{file: file, text: held, first: 1}
	}
	first := 1 + strings.Count(text[:at[0]], "\n")
	all := strings.SplitAfter(text[at[0]:], "\n")
	begin, _, _ := strings.Cut(held, "\n")
	if len(all) < 2 || strings.TrimSpace(all[1]) != strings.TrimSpace(begin) {
		return source{file: file, text: held, first: first}
	}
	return lines(file, held, first+1)
}

// secondDocument returns the line of a second document of a YAML stream, or 0.
// The decoder would leave it unread without a word.
func secondDocument(text string) int {
	begun := false
	parted := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case line == "---" || strings.HasPrefix(line, "--- "):
			if begun {
				parted = i + 1
			}
		case line == "" || strings.HasPrefix(line, "#"):
		case parted > 0:
			return parted
		default:
			begun = true
		}
	}
	return 0
}

// lineIn parts a message of the YAML decoder in the line that it names, or 1,
// and the rest.
func lineIn(message string) (line int, text string) {
	message = strings.TrimPrefix(strings.TrimPrefix(message, "error converting YAML to JSON: "), "yaml: ")
	m := regexp.MustCompile(`(?s)^line (\d{1,9}): (.*)$`).FindStringSubmatch(message)
	if m == nil {
		return 1, message
	}
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), m[2]
}
