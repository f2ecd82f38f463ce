package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	text := `{"__REALTIME_TIMESTAMP":"1795441535807890","_BOOT_ID":"e0","MESSAGE":"Started a.","DCM_PARTITIONS":["a","b"],"BINARY":[1,2]}
{"__REALTIME_TIMESTAMP":"1795441535807891","_BOOT_ID":"e0","MESSAGE":null}`
	var got []Entry
	if err := decode(strings.NewReader(text), func(e Entry) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !got[0].Time.Equal(time.UnixMicro(1795441535807890)) || got[0].Boot != "e0" || got[0].Get("MESSAGE") != "Started a." || got[1].Get("MESSAGE") != "" {
		t.Errorf("entries: got %+v", got)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got[0].Fields["DCM_PARTITIONS"]); diff != "" || len(got[0].Fields["BINARY"]) > 0 {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"{", `{"MESSAGE":"no time"}`} {
		if err := decode(strings.NewReader(bad+"\n"), func(Entry) {}); err == nil {
			t.Errorf("decode of %s: want an error", bad)
		}
	}
}
