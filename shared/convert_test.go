package shared

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fill sets every field of v, at any depth, to a value of its own, so that a
// conversion that drops or swaps a field changes the value.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("value-%d", *n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(val, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, val)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Interface: // an error's cause stays in its process
	default:
		panic("no value for " + v.Type().String())
	}
}

func roundTrip[T any](t *testing.T, both func(T) T) {
	t.Helper()
	var full, zero T
	var n int64
	fill(reflect.ValueOf(&full).Elem(), &n)
	opts := []cmp.Option{cmpopts.IgnoreFields(Error{}, "Err"), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(full, both(full), opts...); diff != "" {
		t.Errorf("%T is not the same after the wire (-sent +received):\n%s", full, diff)
	}
	if diff := cmp.Diff(zero, both(zero), opts...); diff != "" {
		t.Errorf("zero %T is not the same after the wire:\n%s", zero, diff)
	}
}

func TestEveryFieldCrossesTheWire(t *testing.T) {
	roundTrip(t, func(v Identity) Identity { return fromIdentity(toIdentity(v)) })
	roundTrip(t, func(v SlotSpec) SlotSpec { return fromSpec(toSpec(v)) })
	roundTrip(t, func(v PrefetchPlan) PrefetchPlan { return fromPlan(toPlan(v)) })
	roundTrip(t, func(v Progress) Progress { return fromProgress(toProgress(v)) })
	roundTrip(t, func(v SlotInfo) SlotInfo { return fromSlotInfo(toSlotInfo(v)) })
	roundTrip(t, func(v SlotList) SlotList { return fromSlotList(toSlotList(v)) })
	roundTrip(t, func(v Requirement) Requirement { return fromRequirement(toRequirement(v)) })
	roundTrip(t, func(v Resolution) Resolution { return fromResolution(toResolution(v)) })
	roundTrip(t, func(v Phases) Phases { return fromPhases(toPhases(v)) })
	roundTrip(t, func(v ActivationDetail) ActivationDetail { return fromActivation(toActivation(v)) })
	roundTrip(t, func(v Sampling) Sampling { return fromSampling(toSampling(v)) })
	roundTrip(t, func(v GenerateRequest) GenerateRequest { return fromGenerate(toGenerate(v)) })
	roundTrip(t, func(v Chunk) Chunk { return fromChunk(toChunk(v)) })
	roundTrip(t, func(v Result) Result { return fromResult(toResult(v)) })
	roundTrip(t, func(v TokenizeRequest) TokenizeRequest { return fromTokenize(toTokenize(v)) })
	roundTrip(t, func(v ApplyTemplateRequest) ApplyTemplateRequest { return fromApplyTemplate(toApplyTemplate(v)) })
	roundTrip(t, func(v DetokenizeRequest) DetokenizeRequest { return fromDetokenize(toDetokenize(v)) })
	roundTrip(t, func(v EmbedRequest) EmbedRequest { return fromEmbed(toEmbed(v)) })
	roundTrip(t, func(v EmbedResult) EmbedResult { return fromEmbedResult(toEmbedResult(v)) })
	roundTrip(t, func(v WorkerInfo) WorkerInfo { return fromWorkerInfo(toWorkerInfo(v)) })
	roundTrip(t, func(v PrefetchRequest) PrefetchRequest { return fromPrefetch(toPrefetch(v)) })
	roundTrip(t, func(v PrefetchResult) PrefetchResult { return fromPrefetchResult(toPrefetchResult(v)) })
	roundTrip(t, func(v ActivateRequest) ActivateRequest { return fromActivate(toActivate(v)) })
	roundTrip(t, func(v ActivateResult) ActivateResult { return fromActivateResult(toActivateResult(v)) })
	roundTrip(t, func(v EvictWorkerResult) EvictWorkerResult { return fromEvictResult(toEvictResult(v)) })
	roundTrip(t, func(v HeartbeatResult) HeartbeatResult { return fromHeartbeat(toHeartbeat(v)) })
	roundTrip(t, func(v Declaration) Declaration { return fromDeclaration(toDeclaration(v)) })
	roundTrip(t, func(v Plan) Plan { return fromChanges(toChanges(v)) })
	roundTrip(t, func(v Reload) Reload { return fromReload(toReload(v)) })
	roundTrip(t, func(v Activity) Activity { return fromActivity(toActivity(v)) })
	roundTrip(t, func(v WorkerStatus) WorkerStatus { return fromWorkerStatus(toWorkerStatus(v)) })
}

func TestErrorCrossesTheWireWhole(t *testing.T) {
	var sent Error
	var n int64
	fill(reflect.ValueOf(&sent).Elem(), &n)
	got := errorFromStatus(t.Context(), "generate", KindWorkerLost, errorToStatus(&sent))
	if diff := cmp.Diff(&sent, got, cmpopts.IgnoreFields(Error{}, "Err")); diff != "" {
		t.Errorf("the error changed on the wire (-sent +received):\n%s", diff)
	}
}

func TestErrorCauseCrossesAsText(t *testing.T) {
	sent := Errorf(KindModelFile, "cannot read tensor table: %w", fmt.Errorf("cut at byte %d", 17))
	got := errorFromStatus(t.Context(), "prefetch", KindWorkerLost, errorToStatus(sent))
	if KindOf(got) != KindModelFile || got.Error() != "cannot read tensor table: cut at byte 17" {
		t.Errorf("got %v of kind %v", got, KindOf(got))
	}
}

func TestInvalidTextIsMadeSafe(t *testing.T) {
	sent := &Error{Kind: KindModelFile, Message: "bad name \xff\xfe", LogTail: []string{"\xc3"}}
	got := AsError(errorFromStatus(t.Context(), "prefetch", KindWorkerLost, errorToStatus(sent)), "", "")
	if got.Kind != KindModelFile || got.Message != "bad name \uFFFD\uFFFD" {
		t.Errorf("got %q of kind %v", got.Message, got.Kind)
	}
}

func TestKindNamesAreComplete(t *testing.T) {
	seen := map[string]Kind{}
	for k := Kind(0); k < kindEnd; k++ {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
		if prev, ok := seen[k.String()]; ok {
			t.Errorf("kinds %d and %d are both called %s", prev, k, k)
		}
		seen[k.String()] = k
	}
	// Kinds are append-only: these numbers are on the wire.
	if KindShuttingDown != 19 || KindWorkerLost != 11 || KindNotFound != 2 {
		t.Error("a kind was renumbered")
	}
}

func TestPhasesCloseAddsUp(t *testing.T) {
	p := Phases{Route: 1 * time.Millisecond, Prefill: 5 * time.Millisecond}.Close(9 * time.Millisecond)
	if p.Other != 3*time.Millisecond || p.Sum() != 9*time.Millisecond {
		t.Errorf("other is %v, sum is %v", p.Other, p.Sum())
	}
	var full Phases
	var n int64
	fill(reflect.ValueOf(&full).Elem(), &n)
	if len(full.List()) != reflect.TypeFor[Phases]().NumField() || len(full.MS()) != len(full.List()) {
		t.Error("a phase is missing from List or MS")
	}
	if twice := full.Plus(full); twice.Sum() != 2*full.Sum() {
		t.Errorf("Plus drops a phase: %v and %v", twice, full)
	}
}

func TestIdentityNeedsEveryField(t *testing.T) {
	var full Identity
	var n int64
	fill(reflect.ValueOf(&full).Elem(), &n)
	if !full.Matches(full) {
		t.Fatal("a complete identity does not match itself")
	}
	for i := range reflect.TypeFor[Identity]().NumField() {
		other := full
		reflect.ValueOf(&other).Elem().Field(i).SetString("else")
		empty := full
		reflect.ValueOf(&empty).Elem().Field(i).SetString("")
		name := full.Fields()[i].Name
		if full.Matches(other) || empty.Matches(empty) {
			t.Errorf("field %s does not count", name)
		}
		if diff := cmp.Diff([]string{name}, full.Differs(other)); diff != "" {
			t.Errorf("Differs: %s", diff)
		}
		if diff := cmp.Diff([]string{name}, empty.Differs(empty)); diff != "" {
			t.Errorf("Differs on an empty field: %s", diff)
		}
	}
}

func TestErrorsOfGRPCItself(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelLate()
	for _, test := range []struct {
		name string
		ctx  context.Context
		code codes.Code
		want Kind
	}{
		{"the caller left", gone, codes.Canceled, KindCancelled},
		{"the connection was closed on this side", t.Context(), codes.Canceled, KindWorkerLost},
		{"the deadline passed", late, codes.DeadlineExceeded, KindDeadline},
		{"the deadline passed, seen as a cancel", late, codes.Canceled, KindDeadline},
		{"the peer died", t.Context(), codes.Unavailable, KindWorkerLost},
		{"the peer died and the caller left", gone, codes.Unavailable, KindWorkerLost},
		{"the peer does not know the call", t.Context(), codes.Unimplemented, KindUnsupported},
		{"the message was too large", t.Context(), codes.ResourceExhausted, KindInvalid},
		{"the peer is broken", t.Context(), codes.Internal, KindProtocol},
	} {
		if got := errorFromStatus(test.ctx, "generate", KindWorkerLost, status.Error(test.code, "as gRPC says")); KindOf(got) != test.want {
			t.Errorf("%s: got %v of kind %v", test.name, got, KindOf(got))
		}
	}
}
