package sanitize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JSON decodes one document into v. It escapes every string, keys included, as [Lines] does.
func JSON(document []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return Error(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON document")
	}
	escaped, err := json.Marshal(walk(tree))
	if err != nil {
		return fmt.Errorf("cannot decode a JSON document: %w", err)
	}
	return Error(json.Unmarshal(escaped, v))
}

func walk(v any) any {
	switch v := v.(type) {
	case string:
		return Lines(v)
	case []any:
		for i := range v {
			v[i] = walk(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[Text(key)] = walk(value)
		}
		return out
	}
	return v
}
