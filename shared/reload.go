package shared

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// Declaration is what a configuration declares: slots, and further names for them.
type Declaration struct {
	Slots   []SlotSpec
	Aliases map[string]string // alias to slot id
}

// PlanAction is what a reload does to a slot or an alias.
type PlanAction string

// The four plan actions.
const (
	ActionAdd    PlanAction = "add"
	ActionChange PlanAction = "change"
	ActionRemove PlanAction = "remove"
	ActionKeep   PlanAction = "keep"
)

// FieldChange is one setting that differs, under its name in the configuration.
type FieldChange struct {
	Name string
	Old  string
	New  string
}

// SlotChange is what becomes of one slot. A changed slot gets another process;
// a kept one keeps its process, its buffers and its pages.
type SlotChange struct {
	SlotID string
	Action PlanAction
	Fields []FieldChange // of a changed slot
}

// AliasChange is what becomes of one alias. Old and New are slot ids.
type AliasChange struct {
	Alias  string
	Action PlanAction
	Old    string
	New    string
}

// Plan is the way from the running slots to a declaration: the slots in the
// order of the declaration, then the removed ones; the aliases that are not kept.
type Plan struct {
	Slots   []SlotChange
	Aliases []AliasChange
}

// Count is how many slots get an action.
func (p Plan) Count(a PlanAction) int {
	n := 0
	for _, s := range p.Slots {
		if s.Action == a {
			n++
		}
	}
	return n
}

// Empty reports whether the plan changes nothing.
func (p Plan) Empty() bool { return p.Count(ActionKeep) == len(p.Slots) && len(p.Aliases) == 0 }

// String is the plan in a few words.
func (p Plan) String() string {
	return fmt.Sprintf("%d to add, %d to change, %d to remove, %d kept",
		p.Count(ActionAdd), p.Count(ActionChange), p.Count(ActionRemove), p.Count(ActionKeep))
}

// Diagnostic is one remark about a configuration.
type Diagnostic struct {
	Warning bool // it keeps nothing from being applied
	Summary string
	Detail  string
	File    string
	Line    int
	Column  int
	// Text is the whole remark as people read it, with the line of source.
	Text string
}

// Reload is what came of reading the configuration again. When it was not
// applied, nothing has changed and the diagnostics say why.
type Reload struct {
	Applied     bool
	Plan        Plan
	Diagnostics []Diagnostic
}

// specNames are the names in the configuration of those fields of a SlotSpec
// whose name cannot be told from the field's.
var specNames = map[string]string{
	"ModelPath": "model.path", "DeclaredSHA256": "model.sha256", "DeclaredPrecision": "model.precision",
	"ContextTokens": "context.tokens", "Parallel": "context.parallel", "PageTokens": "context.page",
	"KVType": "context.kv_type", "PrefillChunk": "context.prefill_chunk",
	"PagesHost": "pages.host", "PagesDisk": "pages.disk", "Reuse": "pages.reuse", saltField: "pages.salt",
	"Adapters": "adapter", "GPULayers": "gpu_layers",
}

// saltField may come from the environment and is never shown.
const saltField = "PagesSalt"

// Changes lists the settings in which another declaration of the slot differs.
// It looks at every field there is, so that none can be forgotten.
func (s SlotSpec) Changes(next SlotSpec) []FieldChange {
	return fieldChanges("", reflect.ValueOf(s), reflect.ValueOf(next))
}

func fieldChanges(prefix string, was, is reflect.Value) []FieldChange {
	var changes []FieldChange
	for i := range was.NumField() {
		field := was.Type().Field(i)
		name := specNames[field.Name]
		if name == "" || prefix != "" {
			name = prefix + snake(field.Name)
		}
		a, b := was.Field(i), is.Field(i)
		switch {
		case field.Type.Kind() == reflect.Struct:
			changes = append(changes, fieldChanges(name+".", a, b)...)
		case field.Type.Kind() == reflect.Slice:
			if a.Len()+b.Len() > 0 && !reflect.DeepEqual(a.Interface(), b.Interface()) {
				changes = append(changes, FieldChange{Name: name, Old: settings(a), New: settings(b)})
			}
		case a.Equal(b):
		case field.Name == saltField:
			changes = append(changes, FieldChange{Name: name, Old: "(not shown)", New: "(not shown)"})
		default:
			changes = append(changes, FieldChange{Name: name, Old: setting(a), New: setting(b)})
		}
	}
	return changes
}

// settings prints a list of blocks.
func settings(list reflect.Value) string {
	if list.Len() == 0 {
		return "(none)"
	}
	var texts []string
	for i := range list.Len() {
		texts = append(texts, setting(list.Index(i)))
	}
	return strings.Join(texts, ", ")
}

// setting prints a value much as it is written in a configuration.
func setting(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case int64: // sizes are the only settings of this type
		return binarySize(x)
	default:
		if text := fmt.Sprint(x); text != "" {
			return text
		}
		return "(not set)"
	}
}

func binarySize(n int64) string {
	units := []string{"", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; n != 0 && n%1024 == 0 && i < len(units)-1; i++ {
		n /= 1024
	}
	return fmt.Sprintf("%d%s", n, units[i])
}

// snake turns a field's name into a key: IdleTTL into idle_ttl.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		starts := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if starts {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
