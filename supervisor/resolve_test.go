package supervisor

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
)

// declaredAs is a registry's snapshot of slots that are what they say.
func declaredAs(t testing.TB, aliases map[string]string, slots ...declaration) *snapshot {
	t.Helper()
	var owners []*slot
	for i := range slots {
		owners = append(owners, slots[i].slot)
	}
	r := newRegistry(owners, aliases)
	return newSnapshot(r.current.Load().names, slots)
}

func identityOf(model, precision string) shared.Identity {
	return shared.Identity{
		ModelRevision: "sha256:" + model + precision, Precision: precision, TokenizerRevision: "sha256:tok",
		LayoutRevision: "sha256:layout", SlotRevision: shared.SlotRevisionPlain(),
	}
}

func declaredSlot(id, model, precision string) declaration {
	return declaration{
		slot:     &slot{spec: shared.SlotSpec{SlotID: id, Model: model}},
		identity: identityOf(model, precision),
	}
}

func slotIDs(slots []*slot) []string {
	var ids []string
	for _, s := range slots {
		ids = append(ids, s.spec.SlotID)
	}
	return ids
}

func storytellers(t *testing.T) *snapshot {
	return declaredAs(t, map[string]string{"gpt": "b"},
		declaredSlot("a", "storyteller", "Q8_0"),
		declaredSlot("b", "storyteller", "F16"),
		declaredSlot("r/0", "tale", "Q8_0"),
		declaredSlot("r/1", "tale", "Q8_0"))
}

func TestResolveFindsExactlyOneIdentity(t *testing.T) {
	s := storytellers(t)
	for _, c := range []struct {
		name  string
		req   shared.Requirement
		slots []string
	}{
		{"slot", shared.Requirement{SlotID: "a"}, []string{"a"}},
		{"alias as slot", shared.Requirement{SlotID: "gpt"}, []string{"b"}},
		{"alias as model", shared.Requirement{Model: "gpt"}, []string{"b"}},
		{"slot as model", shared.Requirement{Model: "a"}, []string{"a"}},
		{"model and precision", shared.Requirement{Model: "storyteller", Precision: "F16"}, []string{"b"}},
		{"precision alone", shared.Requirement{Precision: "F16"}, []string{"b"}},
		{"model of a group", shared.Requirement{Model: "tale"}, []string{"r/0", "r/1"}},
		{"one of a group", shared.Requirement{SlotID: "r/1"}, []string{"r/1"}},
		{"slot and its model", shared.Requirement{SlotID: "a", Model: "storyteller"}, []string{"a"}},
		{"revision", shared.Requirement{ModelRevision: identityOf("storyteller", "Q8_0").ModelRevision}, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, undecided, err := s.resolve(c.req)
			if err != nil || undecided != nil {
				t.Fatalf("error %v, undecided %v", err, undecided)
			}
			if ids := slotIDs(got.slots); !slices.Equal(ids, c.slots) {
				t.Errorf("slots %v, want %v", ids, c.slots)
			}
			if !got.identity.Complete() || s.route(got.identity) == nil {
				t.Errorf("identity %v has no group", got.identity)
			}
		})
	}
}

func TestResolveErrorsNameWhatThereIs(t *testing.T) {
	s := storytellers(t)
	for _, c := range []struct {
		name       string
		req        shared.Requirement
		kind       shared.Kind
		field      string
		candidates []string
		says       []string
	}{
		{
			"other precision", shared.Requirement{Model: "storyteller", Precision: "Q4_K_M"},
			shared.KindNotFound, "precision", []string{"a", "b"}, []string{"Q4_K_M", "slot a", "precision is Q8_0"},
		},
		{
			"several precisions", shared.Requirement{Model: "storyteller"},
			shared.KindAmbiguous, "precision", []string{"a", "b"}, []string{"slot a (precision Q8_0)", "slot b (precision F16)"},
		},
		{
			"misspelt slot", shared.Requirement{SlotID: "r/2"},
			shared.KindNotFound, "slot_id", []string{"r/0", "r/1", "a"}, []string{`"r/2"`, "r/0, r/1"},
		},
		{
			"misspelt model", shared.Requirement{Model: "storytellr"},
			shared.KindNotFound, "model", []string{"a", "b", "a"}, []string{"the nearest are storyteller"},
		},
		{
			"slot of another model", shared.Requirement{SlotID: "a", Model: "tale"},
			shared.KindNotFound, "model", []string{"a"}, []string{"storyteller, not tale"},
		},
		{
			"nothing asked", shared.Requirement{},
			shared.KindAmbiguous, "model_revision", []string{"a", "b", "r/0", "r/1"}, nil,
		},
		{
			"slot with another precision", shared.Requirement{SlotID: "b", Precision: "Q8_0"},
			shared.KindNotFound, "precision", []string{"b"}, []string{"slot b, whose precision is F16"},
		},
		{
			"lower case is another value", shared.Requirement{Model: "tale", Precision: "q8_0"},
			shared.KindNotFound, "precision", []string{"r/0", "r/1"}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := s.resolve(c.req)
			e := errorOf(t, err, c.kind)
			if e.Field != c.field {
				t.Errorf("field %q, want %q", e.Field, c.field)
			}
			var ids []string
			for _, cand := range e.Candidates {
				ids = append(ids, cand.SlotID)
			}
			if c.name == "misspelt model" {
				ids, c.candidates = ids[:1], c.candidates[:1]
			}
			if !slices.Equal(ids, c.candidates) {
				t.Errorf("candidates %v, want %v", ids, c.candidates)
			}
			for _, part := range c.says {
				if !strings.Contains(e.Error(), part) {
					t.Errorf("%q does not say %q", e.Error(), part)
				}
			}
		})
	}
}

// Identities that no single field tells apart are told apart by all fields that differ.
func TestAmbiguityNamesAllFieldsWhenOneIsNotEnough(t *testing.T) {
	x, y, z := declaredSlot("x", "m", "Q8_0"), declaredSlot("y", "m", "Q8_0"), declaredSlot("z", "m", "F16")
	z.identity.ModelRevision, y.identity.ModelRevision = x.identity.ModelRevision, x.identity.ModelRevision
	y.identity.LayoutRevision = "sha256:other"
	_, _, err := declaredAs(t, nil, x, y, z).resolve(shared.Requirement{Model: "m"})
	if e := errorOf(t, err, shared.KindAmbiguous); e.Field != "precision, layout_revision" {
		t.Errorf("field %q", e.Field)
	}
}

// A name that is a slot's and a model's means both; nothing is preferred silently.
func TestNameOfASlotAndAModelMeansBoth(t *testing.T) {
	s := declaredAs(t, nil, declaredSlot("tale", "story", "Q8_0"), declaredSlot("b", "tale", "F16"))
	_, _, err := s.resolve(shared.Requirement{Model: "tale"})
	wantKind(t, err, shared.KindAmbiguous)
	if got, _, err := s.resolve(shared.Requirement{SlotID: "tale"}); err != nil || got.slots[0].spec.SlotID != "tale" {
		t.Errorf("the slot by its id: %v, %v", got, err)
	}
}

func TestUnknownIdentitiesAreWaitedForOnlyWhenTheyMatter(t *testing.T) {
	known := declaredSlot("a", "story", "Q8_0")
	half := declaredSlot("b", "story", "F16")
	half.identity.ModelRevision = ""
	nothing := declaration{slot: &slot{spec: shared.SlotSpec{SlotID: "c", Model: "tale"}}}
	s := declaredAs(t, nil, known, half, nothing)
	for _, c := range []struct {
		name      string
		req       shared.Requirement
		undecided []string
	}{
		{"itself", shared.Requirement{SlotID: "b"}, []string{"b"}},
		{"could be another identity", shared.Requirement{Model: "story"}, []string{"b"}},
		{"its header rules it out", shared.Requirement{Model: "story", Precision: "Q8_0"}, nil},
		{"another name", shared.Requirement{SlotID: "a"}, nil},
		{"nothing is known", shared.Requirement{Model: "tale", Precision: "F16"}, []string{"c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, undecided, err := s.resolve(c.req)
			if err != nil || !slices.Equal(slotIDs(undecided), c.undecided) {
				t.Fatalf("undecided %v, want %v, error %v", slotIDs(undecided), c.undecided, err)
			}
			if c.undecided == nil && got.identity != known.identity {
				t.Errorf("the identity is %v", got.identity)
			}
		})
	}
}

func TestSlotInErrorIsNamedWhenItWouldHaveMatched(t *testing.T) {
	bad := declaration{
		slot: &slot{spec: shared.SlotSpec{SlotID: "bad", Model: "story"}},
		err:  &shared.Error{Kind: shared.KindIdentity, Message: "declared x, the file has y"},
	}
	good := declaredSlot("good", "story", "F16")
	s := declaredAs(t, nil, bad, good)
	if got, _, err := s.resolve(shared.Requirement{Model: "story"}); err != nil || got.slots[0].spec.SlotID != "good" {
		t.Errorf("the good slot: %v, %v", got, err)
	}
	// Nothing is known of its file: it may be what is asked for, or not.
	_, _, err := s.resolve(shared.Requirement{Model: "story", Precision: "Q8_0"})
	if e := errorOf(t, err, shared.KindNotFound); !strings.Contains(e.Text(), "slot good") || !strings.Contains(e.Text(), "slot bad is in error: declared x") {
		t.Errorf("the error is %+v", e)
	}
	s.slots[0].identity = identityOf("story", "Q8_0")
	_, _, err = s.resolve(shared.Requirement{Model: "story", Precision: "Q4_0"})
	if e := errorOf(t, err, shared.KindNotFound); strings.Contains(e.Text(), "bad") {
		t.Errorf("a slot that cannot be meant is named: %v", e)
	}
	for _, req := range []shared.Requirement{{SlotID: "bad"}, {Model: "story", Precision: "Q8_0"}} {
		_, _, err := s.resolve(req)
		if e := errorOf(t, err, shared.KindIdentity); e.SlotID != "bad" || !strings.Contains(e.Text(), "the file has y") {
			t.Errorf("the error is %+v", e)
		}
	}
	if s.route(shared.Identity{}) != nil {
		t.Error("the empty identity has a group")
	}
}

// Whatever is declared and asked: the answer is the only identity that fits, or
// an error, and the error's kind says why.
func TestResolveNeverGuesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models, precisions := []string{"m", "n"}, []string{"Q8_0", "F16", "Q4_0"}
		var slots []declaration
		for i := range rapid.IntRange(1, 6).Draw(t, "slots") {
			slots = append(slots, declaredSlot(string(rune('a'+i)), rapid.SampledFrom(models).Draw(t, "model"), rapid.SampledFrom(precisions).Draw(t, "precision")))
		}
		var owners []*slot
		for i := range slots {
			owners = append(owners, slots[i].slot)
		}
		s := newSnapshot(newRegistry(owners, nil).current.Load().names, slots)
		req := shared.Requirement{
			SlotID:    rapid.SampledFrom([]string{"", "", "", "a", "b"}).Draw(t, "slot"),
			Model:     rapid.SampledFrom(append(models, "", "a")).Draw(t, "name"),
			Precision: rapid.SampledFrom(append(precisions, "")).Draw(t, "wanted"),
		}
		fits := map[shared.Identity]bool{}
		for _, d := range slots {
			spec := d.slot.spec
			if (req.SlotID == "" || spec.SlotID == req.SlotID) && (req.Model == "" || spec.Model == req.Model || spec.SlotID == req.Model) &&
				(req.Precision == "" || d.identity.Precision == req.Precision) {
				fits[d.identity] = true
			}
		}
		got, undecided, err := s.resolve(req)
		switch {
		case undecided != nil:
			t.Fatalf("undecided %v", undecided)
		case len(fits) == 1 && (err != nil || !fits[got.identity]):
			t.Fatalf("%+v should be %v, got %v, %v", req, fits, got, err)
		case len(fits) == 0 && shared.KindOf(err) != shared.KindNotFound:
			t.Fatalf("%+v should not be found, got %v, %v", req, got, err)
		case len(fits) > 1 && shared.KindOf(err) != shared.KindAmbiguous:
			t.Fatalf("%+v should be ambiguous, got %v, %v", req, got, err)
		}
	})
}
