package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// Kind is which server a peer is.
type Kind string

// The servers that are recognised. Any other one is asked, and its models are
// left alone.
const (
	Firstframe  Kind = "firstframe"
	LlamaServer Kind = "llama-server"
	LlamaRouter Kind = "llama-server router"
	LlamaSwap   Kind = "llama-swap"
	Ollama      Kind = "ollama"
	Unknown     Kind = "unknown"
)

// Peer is one server with the models that it offers.
type Peer struct {
	Client
	Kind   Kind
	Engine string // what it says of its version, empty when it says nothing
	Models []string
}

// PeerInfo is a peer as a document names it.
type PeerInfo struct {
	URL    string `json:"url"`
	Kind   Kind   `json:"kind"`
	Model  string `json:"model"`
	Engine string `json:"engine,omitempty"`
	// What could be seen of its process, when it runs on this machine.
	CPUVariant string `json:"cpu_variant,omitempty"`
	Threads    string `json:"threads,omitempty"`
	// NotComparable is what differs, or could not be found out.
	NotComparable []string `json:"not_comparable"`
}

// Recognise finds out which server answers at an address, and what it offers.
func Recognise(ctx context.Context, base, key string) (*Peer, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is not the address of a server, such as http://127.0.0.1:8080", base)
	}
	p := &Peer{Client: Client{Base: strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1"), Key: key, HTTP: NewHTTPClient()}, Kind: Unknown}
	var list struct {
		Data []struct {
			ID      string          `json:"id"`
			OwnedBy string          `json:"owned_by"`
			Status  json.RawMessage `json:"status"`
		} `json:"data"`
	}
	header, err := p.get(ctx, "/v1/models", &list)
	if err != nil {
		return nil, err
	}
	status := false
	for _, m := range list.Data {
		p.Models = append(p.Models, m.ID)
		status = status || len(m.Status) > 0
	}
	owner := ""
	if len(list.Data) > 0 {
		owner = list.Data[0].OwnedBy
	}
	p.recognise(ctx, header.Get("Server"), owner, status)
	p.IgnoreEOS = p.Kind == Firstframe || p.Kind == LlamaServer || p.Kind == LlamaRouter || p.Kind == LlamaSwap
	return p, nil
}

func (p *Peer) recognise(ctx context.Context, server, owner string, status bool) {
	var props struct {
		Build string `json:"build_info"`
	}
	var version struct {
		Version json.RawMessage `json:"version"`
	}
	var running struct {
		Running json.RawMessage `json:"running"`
	}
	switch {
	case owner == "firstframe":
		p.Kind = Firstframe
	case strings.Contains(server, "llama.cpp") || owner == "llamacpp":
		p.Kind = LlamaServer
		if status {
			p.Kind = LlamaRouter
		}
		if _, err := p.get(ctx, "/props", &props); err == nil {
			p.Engine = props.Build
		}
	default:
		if _, err := p.get(ctx, "/running", &running); err == nil && len(running.Running) > 0 {
			p.Kind = LlamaSwap
			return
		}
		if _, err := p.get(ctx, "/api/version", &version); err == nil && len(version.Version) > 0 {
			p.Kind = Ollama
			p.Engine = strings.Trim(string(version.Version), `"`)
		}
	}
}

// Choose takes the model with exactly this name. Without one it takes the model that
// is named as the file is, or the only one whose name holds the file's.
func (p *Peer) Choose(name, file string) error {
	base := strings.ToLower(strings.TrimSuffix(path.Base(file), path.Ext(file)))
	var fit []string
	for _, id := range p.Models {
		if id == name || name == "" && strings.EqualFold(id, base) {
			p.Model = id
			return nil
		}
		if name == "" && strings.Contains(strings.ToLower(id), base) {
			fit = append(fit, id)
		}
	}
	switch {
	case len(fit) == 1:
		p.Model = fit[0]
	case name == "" && len(fit) == 0 && len(p.Models) == 1:
		p.Model = p.Models[0]
	default:
		return fmt.Errorf("%s has the models %s; say which one is meant", p.Base, strings.Join(p.Models, ", "))
	}
	return nil
}

// get reads a small JSON document.
func (p *Peer) get(ctx context.Context, at string, doc any) (http.Header, error) {
	return p.call(ctx, http.MethodGet, at, nil, doc)
}

// post sends a small JSON document and does not look at the answer.
func (p *Peer) post(ctx context.Context, at string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = p.call(ctx, http.MethodPost, at, data, nil)
	return err
}

func (p *Peer) call(ctx context.Context, method, at string, body []byte, doc any) (http.Header, error) {
	req, err := p.request(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s: %w", p.Base, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it matters
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s%s: %w", method, p.Base, at, statusError(resp))
	}
	const most = 4 << 20
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil || doc == nil {
		return resp.Header, err
	}
	if err := json.Unmarshal(data, doc); err != nil {
		return nil, fmt.Errorf("%s%s is not the document that was expected: %w", p.Base, at, err)
	}
	return resp.Header, nil
}

// pollEvery is how often a peer is asked whether it has done what it began.
const pollEvery = 20 * time.Millisecond

// await asks until done, or until ctx ends.
func await(ctx context.Context, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if err != nil || ok {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Count is how many tokens a text has for the model of a firstframe.
func (p *Peer) Count(ctx context.Context, text string) (int, error) {
	body, err := json.Marshal(map[string]string{"model": p.Model, "content": text})
	if err != nil {
		return 0, err
	}
	var doc struct {
		Tokens []int `json:"tokens"`
	}
	_, err = p.call(ctx, http.MethodPost, "/tokenize", body, &doc)
	return len(doc.Tokens), err
}
