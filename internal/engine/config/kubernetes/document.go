package kubernetes

import (
	"strings"

	"dcm/internal/engine/config/rule"
	"dcm/internal/engine/config/source"
)

// DocumentKey is the key of the document in the data of a ConfigMap.
const DocumentKey = "config.json"

// readDocument parses a config.json, or a ConfigMap in YAML or JSON that contains one.
func readDocument(file, text string, yaml source.YAML) (*source.Node, *source.Problem) {
	text = strings.TrimPrefix(text, "\ufeff")
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return fromYAML(file, text, yaml)
	}
	root, broken := source.ParseJSON(source.NewJSONText(file, text, 1))
	if broken != nil || root.At("data") == nil || root.At("gpu-config-profiles") != nil {
		return root, broken
	}
	held, broken := heldIn(root)
	if broken != nil {
		return nil, broken
	}
	return source.ParseJSON(source.JSONText{File: file, Text: held.Value.(string), FirstLine: held.Line})
}

// heldIn returns the document in a ConfigMap.
func heldIn(root *source.Node) (*source.Node, *source.Problem) {
	if kind := root.At("kind"); kind == nil || kind.Value != "ConfigMap" {
		return nil, &source.Problem{File: root.File, Line: root.Line, Key: "kind", Text: "neither a config.json nor a ConfigMap", Accepted: `kind "ConfigMap" with the key config.json in data`}
	}
	data := root.At("data")
	held := root.At("data", DocumentKey)
	if held == nil {
		line := root.Line
		if data != nil {
			line = data.Line
		}
		f := source.NotOneOf("the ConfigMap has no config.json", DocumentKey, source.Children(data).Keys())
		return nil, &source.Problem{File: root.File, Line: line, Key: "data", Text: f.Text, Accepted: DocumentKey, Suggestion: f.Suggestion, Alternatives: f.Alternatives}
	}
	if _, ok := held.Value.(string); !ok {
		f := rule.WrongType("a string that holds JSON", held)
		return nil, &source.Problem{File: root.File, Line: held.Line, Key: source.DottedKey("data", DocumentKey), Text: f.Text}
	}
	return held, nil
}

// fromYAML parses a ConfigMap in YAML.
func fromYAML(file, text string, yaml source.YAML) (*source.Node, *source.Problem) {
	if yaml == nil {
		return nil, &source.Problem{File: file, Line: 1, Text: "not JSON", Accepted: "the Kubernetes form in JSON; `dcm import` turns a ConfigMap in YAML into TOML"}
	}
	root, broken := yaml(file, text, func(line int) int { return line })
	if broken != nil {
		return nil, broken
	}
	held, broken := heldIn(root)
	if broken != nil {
		return nil, broken
	}
	return source.ParseJSON(block(text, held))
}

// block returns the document with its lines in the YAML file, which are known if it is a literal
// block.
func block(text string, held *source.Node) source.JSONText {
	if held.InBlockOf(text) {
		return source.NewJSONText(held.File, held.Value.(string), held.Line+1)
	}
	return source.JSONText{File: held.File, Text: held.Value.(string), FirstLine: held.Line}
}
