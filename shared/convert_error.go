package shared

import (
	"context"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

func toError(e *Error) *pb.Error {
	m := &pb.Error{
		Op:           e.Op,
		SlotId:       e.SlotID,
		Kind:         uint32(e.Kind),
		Message:      validText(e.Text()),
		Field:        e.Field,
		RetryAfterNs: int64(e.RetryAfter),
	}
	for _, line := range e.LogTail {
		m.LogTail = append(m.LogTail, validText(line))
	}
	for _, c := range e.Candidates {
		m.Candidates = append(m.Candidates, &pb.Candidate{SlotId: c.SlotID, Model: c.Model, Identity: toIdentity(c.Identity)})
	}
	return m
}

func fromError(m *pb.Error) *Error {
	e := &Error{
		Op:         m.GetOp(),
		SlotID:     m.GetSlotId(),
		Kind:       Kind(m.GetKind()),
		Message:    m.GetMessage(),
		Field:      m.GetField(),
		RetryAfter: time.Duration(m.GetRetryAfterNs()),
		LogTail:    m.GetLogTail(),
	}
	for _, c := range m.GetCandidates() {
		e.Candidates = append(e.Candidates, Candidate{SlotID: c.GetSlotId(), Model: c.GetModel(), Identity: fromIdentity(c.GetIdentity())})
	}
	return e
}

// validText makes text from native code or model files safe for protobuf.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// grpcCode is the nearest gRPC code of a kind; the kind itself travels as a
// status detail, so that nothing has to be guessed from the code.
func grpcCode(k Kind) codes.Code {
	switch k {
	case KindInvalid, KindContextTooLong, KindConfig, KindUnsupported:
		return codes.InvalidArgument
	case KindNotFound:
		return codes.NotFound
	case KindAmbiguous, KindIdentity, KindNotResident, KindPending, KindModelFile, KindEngineMissing:
		return codes.FailedPrecondition
	case KindBusy:
		return codes.ResourceExhausted
	case KindDeadline:
		return codes.DeadlineExceeded
	case KindCancelled:
		return codes.Canceled
	case KindWorkerLost, KindUnavailable, KindShuttingDown:
		return codes.Unavailable
	default:
		return codes.Internal
	}
}

// errorToStatus packs an error for the wire. It is nil for nil.
func errorToStatus(err error) error {
	e := AsError(err, "", "")
	if e == nil {
		return nil
	}
	st := status.New(grpcCode(e.Kind), validText(e.Error()))
	detailed, detailErr := st.WithDetails(toError(e))
	if detailErr != nil {
		return st.Err()
	}
	return detailed.Err()
}

// errorFromStatus unpacks an error from the wire. What has no details comes
// from gRPC itself: the caller's context, a lost connection, which gets the
// kind lost, or a broken peer.
func errorFromStatus(ctx context.Context, op string, lost Kind, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return &Error{Op: op, Kind: KindProtocol, Message: "the stream ended without a result"}
	}
	st, ok := status.FromError(err)
	if !ok {
		return AsError(err, op, "")
	}
	for _, d := range st.Details() {
		if m, isError := d.(*pb.Error); isError {
			return fromError(m)
		}
	}
	kind := KindProtocol
	switch st.Code() {
	case codes.Canceled:
		// Without the caller's doing, it is the connection that was closed.
		kind = lost
	case codes.DeadlineExceeded:
		kind = KindDeadline
	case codes.Unavailable:
		kind = lost
	case codes.Unimplemented:
		kind = KindUnsupported
	case codes.InvalidArgument, codes.ResourceExhausted:
		kind = KindInvalid
	}
	if cause := ctx.Err(); cause != nil && (kind != lost || st.Code() == codes.Canceled) {
		kind = KindOf(cause)
	}
	return &Error{Op: op, Kind: kind, Message: st.Message()}
}
