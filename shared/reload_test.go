package shared

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEveryFieldOfADeclarationCounts(t *testing.T) {
	var full SlotSpec
	var n int64
	fill(reflect.ValueOf(&full).Elem(), &n)
	seen := map[string]bool{}
	for i := range reflect.TypeFor[SlotSpec]().NumField() {
		other := full
		field := reflect.ValueOf(&other).Elem().Field(i)
		if field.Kind() != reflect.Struct {
			field.SetZero()
		} else {
			field.Field(0).SetZero()
		}
		changes := full.Changes(other)
		if len(changes) != 1 || seen[changes[0].Name] {
			t.Errorf("field %s gives %v", reflect.TypeFor[SlotSpec]().Field(i).Name, changes)
			continue
		}
		seen[changes[0].Name] = true
	}
	if changes := full.Changes(full); len(changes) != 0 {
		t.Errorf("equal declarations differ in %v", changes)
	}
}

func TestChangesReadLikeTheConfiguration(t *testing.T) {
	was := SlotSpec{ContextTokens: 512, PagesHost: 512 << 20, Deadline: 5 * time.Minute, OnMiss: OnMissWait, Preload: true, PagesSalt: "one"}
	is := SlotSpec{ContextTokens: 1024, PagesHost: 1<<30 + 1024, Deadline: time.Minute, PagesSalt: "two"}
	want := []FieldChange{
		{"context.tokens", "512", "1024"},
		{"preload", "true", "false"},
		{"on_miss", "wait", "(not set)"},
		{"pages.host", "512MiB", "1048577KiB"},
		{"pages.salt", "(not shown)", "(not shown)"},
		{"deadline", "5m0s", "1m0s"},
	}
	if diff := cmp.Diff(want, was.Changes(is)); diff != "" {
		t.Error(diff)
	}
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{"IdleTTL": "idle_ttl", "OnMiss": "on_miss", "Pin": "pin", "KVType": "kv_type", "SlotID": "slot_id"} {
		if got := snake(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}
