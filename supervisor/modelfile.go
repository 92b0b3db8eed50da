package supervisor

import (
	"context"

	"github.com/firstframe/firstframe/shared"
)

// ggufFiles reads model files as they are on disk.
type ggufFiles struct{}

func (ggufFiles) Header(string) (modelHeader, error) {
	return nil, shared.Errorf(shared.KindUnsupported, "not supported by this version yet")
}

func (ggufFiles) Digest(context.Context, string, func(done, total int64)) (string, error) {
	return "", shared.Errorf(shared.KindUnsupported, "not supported by this version yet")
}
