package proxy

import (
	"regexp"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

var precisionName = regexp.MustCompile(`^(?i)(I?Q[1-8](_[A-Z0-9]+)*|T?Q[12]_0|F16|F32|F64|BF16|MXFP4(_MOE)?)$`)

// parseModel reads a model string: a name or an alias, "name:PRECISION", or
// "name@sha256:…". What looks like neither is a name as a whole, so that the
// error for it says what was asked for.
func parseModel(model string) shared.Requirement {
	if name, digest, ok := strings.Cut(model, "@sha256:"); ok {
		return shared.Requirement{Model: name, ModelRevision: "sha256:" + digest}
	}
	if i := strings.LastIndexByte(model, ':'); i > 0 && precisionName.MatchString(model[i+1:]) {
		return shared.Requirement{Model: model[:i], Precision: strings.ToUpper(model[i+1:])}
	}
	return shared.Requirement{Model: model}
}

// askedModel is the model string that a requirement was read from.
func askedModel(r shared.Requirement) string {
	switch {
	case r.ModelRevision != "":
		return r.Model + "@" + r.ModelRevision
	case r.Precision != "":
		return r.Model + ":" + r.Precision
	default:
		return r.Model
	}
}

// modelID is the name under which exactly this precision of a model is asked for.
func modelID(model string, id shared.Identity) string {
	if id.Precision == "" {
		return model
	}
	return model + ":" + id.Precision
}
