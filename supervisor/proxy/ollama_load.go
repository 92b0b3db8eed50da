package proxy

import (
	"net/http"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

// ollamaLoad answers a request without a prompt: it makes a model ready, or with
// keep_alive 0 frees its device buffers, which is for whoever may do admin actions.
func (s *Server) ollamaLoad(w http.ResponseWriter, r *http.Request, ask ollamaAsk) {
	if ask.unload {
		s.withAdmin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ollamaDone(w, ask, "unload", s.unload(r, ask.Requirement))
		})).ServeHTTP(w, r)
		return
	}
	ollamaDone(w, ask, "load", s.load(r, ask))
}

func ollamaDone(w http.ResponseWriter, ask ollamaAsk, reason string, err error) {
	if err != nil {
		writeOllamaError(w, err)
		return
	}
	line := (&ollamaAnswer{ask: ask}).line(piece{})
	line.Done, line.DoneReason = true, reason
	writeJSON(w, http.StatusOK, line)
}

// load prepares a slot as a request with a prompt would.
func (s *Server) load(r *http.Request, ask ollamaAsk) error {
	release, err := s.takePlace()
	if err != nil {
		return err
	}
	defer release()
	asked := ollamaFrontend{Frontend: s.frontend, context: ask.context, thinks: ask.thinks}
	if err := asked.check(r.Context(), ask.Requirement); err != nil {
		return err
	}
	slots, err := slotsOf(r.Context(), s.frontend, ask.Requirement)
	if err != nil || slices.ContainsFunc(slots, func(s shared.SlotInfo) bool { return s.Status.Ready() }) {
		return err
	}
	if slots[0].OnMiss == shared.OnMissFail {
		return shared.Errorf(shared.KindNotResident, "slot %s is not resident and is not prepared for requests", slots[0].SlotID)
	}
	_, err = s.frontend.Prepare(r.Context(), slots[0].SlotID, func(shared.Progress) {})
	return err
}

func (s *Server) unload(r *http.Request, asked shared.Requirement) error {
	slots, err := slotsOf(r.Context(), s.frontend, asked)
	if err != nil {
		return err
	}
	for _, slot := range slots {
		if _, err := s.frontend.Evict(r.Context(), slot.SlotID, false); err != nil {
			return err
		}
	}
	return nil
}
