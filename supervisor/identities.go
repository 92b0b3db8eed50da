package supervisor

import (
	"context"

	"github.com/firstframe/firstframe/shared"
)

// Identities computes the identity of each slot as a supervisor with this state
// directory would, with the digests that it has kept. It changes nothing, and
// fails when the files of one slot do not tell it.
func Identities(ctx context.Context, stateDir string, specs []shared.SlotSpec) ([]shared.Identity, error) {
	digests := openDigestCache(stateDir)
	files := ggufFiles{}
	digest := func(paths ...string) (string, error) {
		key, err := fileKeyOf(paths...)
		if err != nil {
			return "", shared.Errorf(shared.KindModelFile, "cannot look at the model file: %w", err)
		}
		if revision, ok := digests.lookup(key); ok {
			return revision, nil
		}
		revision, err := files.Digest(ctx, paths, func(int64, int64) {})
		if err == nil {
			digests.entries[key.path] = digestEntry{Size: key.size, ModTime: key.modTime, Inode: key.inode, Revision: revision, Parts: paths[1:], States: key.more}
		}
		return revision, err
	}
	var list []shared.Identity
	for _, spec := range specs {
		header, err := files.Header(spec.ModelPath)
		if err != nil {
			return nil, shared.AsError(err, "", spec.SlotID)
		}
		revision, err := digest(header.Paths()...)
		if err != nil {
			return nil, shared.AsError(err, "", spec.SlotID)
		}
		var adapters []string
		for _, a := range spec.Adapters {
			r, err := digest(a.Path)
			if err != nil {
				return nil, shared.AsError(err, "", spec.SlotID)
			}
			adapters = append(adapters, r)
		}
		list = append(list, header.Identity(revision, spec, adapters...))
	}
	return list, nil
}
