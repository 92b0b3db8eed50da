package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNoAPI says that a server has no way to do what was asked of it.
var ErrNoAPI = errors.New("it has no API for that")

// Unload frees the model, and returns when that is done. firstframe keeps its
// host buffer, as it does when it makes room by itself.
func (p *Peer) Unload(ctx context.Context) error {
	switch p.Kind {
	case Firstframe:
		return p.slot(ctx, "evict")
	case LlamaRouter:
		if state, err := p.routerState(ctx); err != nil || state == "unloaded" {
			return err
		}
		if err := p.post(ctx, "/models/unload", map[string]string{"model": p.Model}); err != nil {
			return err
		}
		return await(ctx, func(ctx context.Context) (bool, error) {
			state, err := p.routerState(ctx)
			return state == "unloaded", err
		})
	case LlamaSwap:
		if err := p.post(ctx, "/api/models/unload", struct{}{}); err != nil {
			return err
		}
		return await(ctx, func(ctx context.Context) (bool, error) {
			var doc struct {
				Running []json.RawMessage `json:"running"`
			}
			_, err := p.get(ctx, "/running", &doc)
			return len(doc.Running) == 0, err
		})
	case Ollama:
		if err := p.post(ctx, "/api/generate", map[string]any{"model": p.Model, "keep_alive": 0}); err != nil {
			return err
		}
		return await(ctx, func(ctx context.Context) (bool, error) {
			var doc struct {
				Models []struct {
					Model string `json:"model"`
				} `json:"models"`
			}
			_, err := p.get(ctx, "/api/ps", &doc)
			for _, m := range doc.Models {
				if m.Model == p.Model {
					return false, err
				}
			}
			return true, err
		})
	}
	return fmt.Errorf("cannot unload a model of %s: %w", p.Base, ErrNoAPI)
}

// CanUnload reports whether Unload can work.
func (p *Peer) CanUnload() bool { return p.Kind != Unknown && p.Kind != LlamaServer }

// Restart ends the process that holds the model, and returns when the model is
// ready in the next one: the most that a server's own API lets one do.
func (p *Peer) Restart(ctx context.Context) error {
	if p.Kind == Firstframe {
		if err := p.slot(ctx, "restart"); err != nil {
			return err
		}
		return p.slot(ctx, "prepare")
	}
	if err := p.Unload(ctx); err != nil {
		return err
	}
	return p.load(ctx)
}

// load makes the model ready; where there is no API for it, a request does.
func (p *Peer) load(ctx context.Context) error {
	switch p.Kind {
	case LlamaRouter:
		if err := p.post(ctx, "/models/load", map[string]string{"model": p.Model}); err != nil {
			return err
		}
		return await(ctx, func(ctx context.Context) (bool, error) {
			state, err := p.routerState(ctx)
			return state == "loaded", err
		})
	case Ollama:
		return p.post(ctx, "/api/generate", map[string]any{"model": p.Model})
	}
	_, err := p.Ask(ctx, Question{Text: "Hello!", MaxTokens: 1})
	return err
}

// routerState is unloaded, loading or loaded.
func (p *Peer) routerState(ctx context.Context) (string, error) {
	var list struct {
		Data []struct {
			ID     string `json:"id"`
			Status struct {
				Value  string `json:"value"`
				Failed bool   `json:"failed"`
			} `json:"status"`
		} `json:"data"`
	}
	if _, err := p.get(ctx, "/models", &list); err != nil {
		return "", err
	}
	for _, m := range list.Data {
		if m.ID == p.Model {
			if m.Status.Failed {
				return "", fmt.Errorf("%s could not load %s", p.Base, p.Model)
			}
			return m.Status.Value, nil
		}
	}
	return "", fmt.Errorf("%s has no model %s any more", p.Base, p.Model)
}

// ready reports whether the model of a firstframe is prepared.
func (p *Peer) ready(ctx context.Context) (bool, error) {
	var list struct {
		Data []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"data"`
	}
	if _, err := p.get(ctx, "/v1/models", &list); err != nil {
		return false, err
	}
	for _, m := range list.Data {
		if m.ID == p.Model {
			return m.Status == "resident" || m.Status == "active", nil
		}
	}
	return false, fmt.Errorf("%s has no model %s any more", p.Base, p.Model)
}

// slot does something to the slot that serves the model of a firstframe.
func (p *Peer) slot(ctx context.Context, action string) error {
	var list struct {
		Data []struct {
			ID      string   `json:"id"`
			SlotIDs []string `json:"slot_ids"`
		} `json:"data"`
	}
	if _, err := p.get(ctx, "/v1/models", &list); err != nil {
		return err
	}
	for _, m := range list.Data {
		if m.ID != p.Model {
			continue
		}
		for _, id := range m.SlotIDs {
			if err := p.post(ctx, "/api/slots/"+action, map[string]string{"slot_id": id}); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%s has no model %s any more", p.Base, p.Model)
}
