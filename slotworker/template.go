package slotworker

import (
	"context"

	"github.com/firstframe/firstframe/shared"
)

type templateTokens struct{ bos, eos string }

type chatTemplate struct{}

func parseTemplate(string, templateTokens) *chatTemplate { return &chatTemplate{} }

func (t *chatTemplate) render(context.Context, []shared.Message, bool) (string, error) {
	return "", shared.Errorf(shared.KindUnsupported, "not supported by this version yet")
}
