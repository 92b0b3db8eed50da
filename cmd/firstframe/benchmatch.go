package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

// matchOptions is what the command line asks of a comparison.
type matchOptions struct {
	against      []string
	model, other string // of the peer
	otherFile    string
	key          string
	cases        []string
}

func (o *matchOptions) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.against, "against", nil, "addresses of OpenAI-compatible servers to be measured in turns with this one")
	flags.StringVar(&o.model, "peer-model", "", "their name for the model (default: the one named as the file, or with its name in it, or the only one)")
	flags.StringVar(&o.otherFile, "other-model", "", "second GGUF file, for the cases that switch between two; memory is then bounded to one of them")
	flags.StringVar(&o.other, "peer-other-model", "", "their name for the second model")
	flags.StringVar(&o.key, "peer-key", "", "their API key")
}

// check resolves the cases. What quick means for a supervisor of its own means
// every case here: each costs seconds with a small model.
func (o *matchOptions) check(asked []string) error {
	known := bench.MatchCases()
	for _, name := range asked {
		switch {
		case name == quickCases || name == allCases:
			o.cases = known
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no case %q with --against; there are %s", name, strings.Join(known, ", "))
		case !slices.Contains(o.cases, name):
			o.cases = append(o.cases, name)
		}
	}
	return nil
}

// against measures this program, served as people serve it, and each peer in turns.
func (b *bencher) against(ctx context.Context, dir string) error {
	m := b.o.match
	var peers []*bench.Peer
	for _, address := range m.against { // before anything is started
		p, err := bench.Recognise(ctx, address, m.key)
		if err == nil {
			err = p.Choose(m.model, b.spec.ModelPath)
		}
		if err != nil {
			return err
		}
		peers = append(peers, p)
	}
	slots := []shared.SlotSpec{b.spec}
	slots[0].Parallel = b.o.parallel
	var budget map[string]int64
	if m.otherFile != "" {
		path, err := filepath.Abs(m.otherFile)
		if err != nil {
			return err
		}
		same, err := sameContent(b.spec.ModelPath, path)
		if err != nil {
			return err
		}
		if same {
			return errors.New("--other-model is the same model as the first: whoever serves one of them serves both, and there is no switch")
		}
		other := slots[0]
		other.SlotID, other.Model, other.ModelPath = b.spec.SlotID+"-other", strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))+"-other", path
		slots = append(slots, other)
		if budget, err = roomForOne(slots[0], other); err != nil {
			return err
		}
	}
	return withOwnServer(ctx, dir, slots, budget, func(s ownServer) error {
		ours, err := bench.Recognise(ctx, s.url, "")
		if err != nil {
			return err
		}
		if err := ours.Choose(slots[0].Model, ""); err != nil {
			return err
		}
		count := func(ctx context.Context, text string) (int, error) { return ours.Count(ctx, text) }
		prompts, err := bench.NewPrompts(ctx, b.o.seed, count)
		if err != nil {
			return err
		}
		for _, p := range peers {
			if err := b.matchOne(ctx, s, ours, p, prompts, slots); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bencher) matchOne(ctx context.Context, s ownServer, ours, theirs *bench.Peer, prompts *bench.Prompts, slots []shared.SlotSpec) error {
	m := bench.Match{
		Ours: ours, Theirs: theirs, Prompts: prompts, Pairs: b.o.runs, WarmUp: b.o.warmUp, MaxTokens: b.o.tokens,
		ContextTokens: b.spec.ContextTokens, Cases: b.o.match.cases,
		Step: func() { _ = b.bar.Add(1) }, // a bar that cannot be drawn does not matter
	}
	if len(slots) > 1 {
		other := *theirs
		if err := other.Choose(b.o.match.other, slots[1].ModelPath); err != nil {
			return err
		}
		m.OurOther, m.TheirOther = slots[1].Model, other.Model
	}
	// A first answer each, so that both have loaded and can be looked at.
	for _, p := range []*bench.Peer{ours, theirs} {
		if _, err := p.Ask(ctx, bench.Question{Text: "Hello!", MaxTokens: 1}); err != nil {
			return err
		}
	}
	own := bench.PeerInfo{URL: ours.Base, Kind: ours.Kind, Model: ours.Model, Engine: "llama.cpp " + shared.EngineVersion, Threads: strconv.Itoa(b.spec.Threads)}
	own.CPUVariant = bench.CPUVariant(s.pid)
	b.doc.Environment.CPUVariant = own.CPUVariant
	info := bench.PeerInfo{URL: theirs.Base, Kind: theirs.Kind, Model: theirs.Model, Engine: theirs.Engine}
	info.Inspect()
	info.NotComparable = bench.NotComparable(own, info)
	b.doc.Peers = append(b.doc.Peers, info)
	list, err := m.Run(ctx)
	b.doc.Comparisons = append(b.doc.Comparisons, list...)
	if err != nil {
		return errors.Join(fmt.Errorf("cannot compare with %s (%s): %w", theirs.Base, theirs.Kind, err), s.ended())
	}
	return nil
}

// sameContent compares two files.
func sameContent(a, b string) (bool, error) {
	var files [2]*os.File
	var infos [2]os.FileInfo
	for i, path := range []string{a, b} {
		var err error
		if files[i], infos[i], err = regular.Open(path); err != nil {
			return false, err
		}
		defer func() { _ = files[i].Close() }() // nothing was written
	}
	if os.SameFile(infos[0], infos[1]) {
		return true, nil
	}
	if infos[0].Size() != infos[1].Size() {
		return false, nil
	}
	var parts [2][]byte
	for i := range parts {
		parts[i] = make([]byte, 1<<20)
	}
	for {
		for i, f := range files {
			n, err := io.ReadFull(f, parts[i][:cap(parts[i])])
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
			parts[i] = parts[i][:n]
		}
		if !bytes.Equal(parts[0], parts[1]) {
			return false, nil
		}
		if len(parts[0]) < cap(parts[0]) {
			return true, nil
		}
	}
}

// tellMatch prints the comparison for people.
func (b *bencher) tellMatch() {
	for _, p := range b.doc.Peers {
		b.app.progressf("against %s, %s %s, model %s", p.URL, p.Kind, dash(p.Engine), p.Model)
		for _, note := range p.NotComparable {
			b.app.progressf("  not comparable: %s", note)
		}
		for _, c := range b.doc.Comparisons {
			switch {
			case c.Peer != p.URL:
			case c.NotComparable != "":
				b.app.progressf("  %-28s not compared: %s", c.Case, c.NotComparable)
			default:
				b.app.progressf("  %-28s %-18s ours %9.2f, theirs %9.2f, ratio %.2f (%.2f to %.2f in the middle half of %d pairs)",
					c.Case, c.Measure, c.Ours.Median, c.Theirs.Median, c.Ratio.Median, c.Ratio.P25, c.Ratio.P75, len(c.Pairs))
			}
		}
	}
}
