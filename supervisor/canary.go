package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// canaryStore keeps what the canary answered when an identity was first
// activated on a kind of CPU. A later activation that answers anything else is
// not served: its weights or its memory are not what they were.
type canaryStore struct {
	dir string // empty: nothing is kept, and every answer is the first
	log hclog.Logger
}

// canaryRecord is one reference file.
type canaryRecord struct {
	Identity   shared.Identity `json:"identity"`
	CPUVariant string          `json:"cpu_variant"`
	Tokens     []int32         `json:"tokens"`
}

// newCanaryStore makes the folder for the references.
func newCanaryStore(stateDir string, log hclog.Logger) (*canaryStore, error) {
	if stateDir == "" {
		return &canaryStore{}, nil
	}
	dir := filepath.Join(stateDir, "canary")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder of the canary references: %w", err)
	}
	return &canaryStore{dir: dir, log: log}, nil
}

// check compares the canary of an activation with the reference, and makes it
// the reference when there is none. A reference that cannot be read counts as
// none, since it proves nothing, and one that cannot be written is no reason to
// refuse a slot whose canary nothing speaks against.
func (c *canaryStore) check(ctx context.Context, worker shared.Worker, id shared.Identity, tokens []int32) error {
	if c.dir == "" || len(tokens) == 0 {
		return nil
	}
	info, err := worker.Describe(ctx)
	if err != nil {
		return fmt.Errorf("cannot ask the worker for its CPU variant: %w", err)
	}
	rec := canaryRecord{Identity: id, CPUVariant: info.CPUVariant, Tokens: tokens}
	path := filepath.Join(c.dir, rec.name())
	if want, ok := readCanary(path, rec); ok {
		if slices.Equal(want, tokens) {
			return nil
		}
		return &shared.Error{
			Kind:    shared.KindIdentity,
			Field:   "canary",
			Message: fmt.Sprintf("the canary answered %v, at the first activation it was %v; remove %s if the change is meant", tokens, want, path),
		}
	}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err == nil {
		err = writeFileAtomic(path, append(data, '\n'))
	}
	if err != nil {
		c.log.Warn("the canary reference was not kept", "identity", id.String(), "error", err)
	}
	return nil
}

func (r canaryRecord) name() string {
	fields := []string{r.CPUVariant}
	for _, f := range r.Identity.Fields() {
		fields = append(fields, f.Value)
	}
	_, digest, _ := strings.Cut(shared.HashFields("firstframe/canary/v1", fields...), ":")
	return digest + ".json"
}

// readCanary reads the tokens of a reference that really is of the same kind.
func readCanary(path string, like canaryRecord) ([]int32, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	var rec canaryRecord
	if json.Unmarshal(data, &rec) != nil || rec.Identity != like.Identity || rec.CPUVariant != like.CPUVariant || len(rec.Tokens) == 0 {
		return nil, false
	}
	return rec.Tokens, true
}

// writeFileAtomic replaces a file as a whole: a reader sees the old content or
// the new one, also after a crash.
func writeFileAtomic(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		if rm := os.Remove(tmp.Name()); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}
