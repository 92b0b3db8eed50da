package modelfetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/firstframe/firstframe/shared"
)

// cutError is an end before the end: worth another request.
type cutError struct{ err error }

func (e *cutError) Error() string { return e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// fetcher makes the requests of one fetch.
type fetcher struct {
	cfg       Config
	part      *part
	client    *retryablehttp.Client
	transport *http.Transport
	promised  string // the digest that the server names
	resumed   int64  // of the bytes, those that were there at the start
	refused   error  // why a redirect was not followed
	failed    error  // why the latest request had no answer
}

const maxRedirects = 10

func newFetcher(cfg Config, p *part) *fetcher {
	f := &fetcher{cfg: cfg, part: p, resumed: p.size, transport: http.DefaultTransport.(*http.Transport).Clone(), client: retryablehttp.NewClient()}
	f.client.HTTPClient = &http.Client{Transport: f.transport, CheckRedirect: f.redirect}
	f.client.Logger = nil
	f.client.RetryMax = cfg.Tries
	f.client.RetryWaitMin, f.client.RetryWaitMax = cfg.Wait, 30*cfg.Wait
	// The client has no hook of its own for a wait that is about to begin, with what
	// made it necessary.
	f.client.Backoff = func(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
		wait := retryablehttp.DefaultBackoff(least, most, attempt, resp)
		cause := f.failed
		if resp != nil {
			cause = fmt.Errorf("the server answers %s", resp.Status)
		}
		cfg.Retry(cause, wait)
		return wait
	}
	f.client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	f.client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if f.refused != nil {
			return false, f.refused
		}
		f.failed = err
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	return f
}

func (f *fetcher) close() { f.transport.CloseIdleConnections() }

// redirect follows only to where the file could have been asked for directly. What
// the first host says of the file holds for wherever it sends.
func (f *fetcher) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		f.refused = shared.Errorf(shared.KindUnavailable, "the server redirects more than %d times", maxRedirects)
	} else if err := f.cfg.allowed(req.URL); err != nil {
		f.refused = shared.Errorf(shared.KindUnavailable, "the server redirects to %s: %w", req.URL.Redacted(), err)
	}
	f.promise(req.Response.Header)
	return f.refused
}

// promise notes the digest that Hugging Face's servers name.
func (f *fetcher) promise(h http.Header) {
	tag := strings.Trim(h.Get("X-Linked-Etag"), `"`)
	if f.cfg.HuggingFace && f.promised == "" && hexDigest.MatchString(tag) {
		f.promised = tag
	}
}

// once makes one request for what is missing, and reports whether the file is whole.
func (f *fetcher) once(ctx context.Context) (whole bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(f.cfg.Idle, func() { cancel(&cutError{fmt.Errorf("the server has sent nothing for %v", f.cfg.Idle)}) })
	defer idle.Stop()
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, f.cfg.URL, nil)
	if err != nil {
		return false, shared.Errorf(shared.KindInvalid, "the address is none: %w", err)
	}
	from := f.askFrom()
	f.headers(req.Header, from)
	resp, err := f.client.Do(req)
	if err != nil {
		if f.refused != nil {
			return false, f.refused
		}
		if cut := context.Cause(ctx); errors.As(cut, new(*cutError)) {
			return false, cut
		}
		return false, shared.Errorf(shared.KindUnavailable, "cannot fetch the file: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it goes
	f.promise(resp.Header)
	if f.promised != "" && f.cfg.SHA256 != "" && f.promised != f.cfg.SHA256 {
		return false, shared.Errorf(shared.KindModelFile, "the file is not the one that was meant: by the server its sha256 is %s", f.promised)
	}
	if err := f.place(resp, from); err != nil {
		return false, err
	}
	return f.take(ctx, resp.Body, idle)
}

// askFrom is from where on the rest is asked for: after what is there, if that is
// known to be of the same file or will be proved to be.
func (f *fetcher) askFrom() int64 {
	o := f.part.origin
	if o.URL != f.cfg.URL || f.part.size > o.Total || o.Validator == "" && f.cfg.SHA256 == "" {
		return 0
	}
	return f.part.size
}

func (f *fetcher) headers(h http.Header, from int64) {
	h.Set("Accept-Encoding", "identity") // offsets are those of the file itself
	if f.cfg.UserAgent != "" {
		h.Set("User-Agent", f.cfg.UserAgent)
	}
	if f.cfg.Token != "" {
		h.Set("Authorization", "Bearer "+f.cfg.Token) // the client drops it when another host is next
	}
	if from > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", from))
		if v := f.part.origin.Validator; v != "" {
			h.Set("If-Range", v)
		}
	}
}

// place makes the part ready for what the answer brings.
func (f *fetcher) place(resp *http.Response, from int64) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if resp.ContentLength <= 0 {
			return shared.Errorf(shared.KindUnavailable, "the server does not say how long the file is, so that nobody could tell when it is whole")
		}
		f.resumed = 0
		if err := f.part.begin(origin{f.cfg.URL, validator(resp.Header), resp.ContentLength}); err != nil {
			return shared.Errorf(shared.KindConfig, "cannot write the file: %w", err)
		}
		return nil
	case http.StatusPartialContent:
		start, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || from == 0 || start != from || total != f.part.origin.Total {
			// Another file than the one that was begun: from the start, then.
			f.part.origin = origin{}
			return &cutError{errors.New("the server sent another part than it was asked for")}
		}
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		if from > 0 && from == f.part.origin.Total {
			return nil // all of it is there
		}
		f.part.origin = origin{}
		return &cutError{errors.New("the server does not have the rest of what was begun")}
	case http.StatusUnauthorized, http.StatusForbidden:
		hint := ""
		if f.cfg.HuggingFace {
			hint = "; files with conditions need a token in HF_TOKEN"
		}
		return shared.Errorf(shared.KindUnavailable, "the server refuses the file: %s%s", resp.Status, hint)
	case http.StatusNotFound, http.StatusGone:
		return shared.Errorf(shared.KindModelFile, "the server has no such file: %s", resp.Status)
	default:
		return shared.Errorf(shared.KindUnavailable, "the server does not give the file: %s", resp.Status)
	}
}

// take writes what comes, as far as it comes.
func (f *fetcher) take(ctx context.Context, body io.Reader, idle *time.Timer) (whole bool, err error) {
	total := f.part.origin.Total
	buf := make([]byte, 256<<10)
	for f.part.size < total {
		n, err := body.Read(buf[:min(int64(len(buf)), total-f.part.size)])
		if n > 0 {
			idle.Reset(f.cfg.Idle)
			if _, err := f.part.Write(buf[:n]); err != nil {
				return false, shared.Errorf(shared.KindConfig, "cannot write the file: %w", err)
			}
			f.cfg.Progress(Progress{stageFetching, f.part.size, total})
		}
		if err != nil && f.part.size < total {
			if cut := context.Cause(ctx); cut != nil {
				err = cut
			}
			return false, &cutError{fmt.Errorf("the connection ended after %d of %d bytes: %w", f.part.size, total, err)}
		}
	}
	return true, nil
}

// validator is what tells this state of the file from every other: weak tags do not.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// contentRange reads "bytes START-END/TOTAL".
func contentRange(v string) (start, total int64, ok bool) {
	span, size, found := strings.Cut(strings.TrimPrefix(v, "bytes "), "/")
	first, _, dash := strings.Cut(span, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	total, err2 := strconv.ParseInt(size, 10, 64)
	return start, total, found && dash && strings.HasPrefix(v, "bytes ") && err == nil && err2 == nil && start >= 0 && start < total
}
