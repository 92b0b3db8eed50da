package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
	"github.com/firstframe/firstframe/supervisor"
)

// pagesFlags are what the commands about page files share.
type pagesFlags struct {
	dirs   []string
	config string
	json   bool
	older  time.Duration
	dry    bool
}

// pageGroupJSON counts the files of one folder that are of one state and identity.
type pageGroupJSON struct {
	Folder            string `json:"folder"`
	State             string `json:"state"`
	ModelRevision     string `json:"model_revision,omitempty"`
	TokenizerRevision string `json:"tokenizer_revision,omitempty"`
	LayoutRevision    string `json:"layout_revision,omitempty"`
	SlotRevision      string `json:"slot_revision,omitempty"`
	Salted            bool   `json:"salted,omitempty"`
	// Declared is null without --config.
	Declared *bool     `json:"declared"`
	Pages    int       `json:"pages"`
	Tokens   int       `json:"tokens"`
	Bytes    int64     `json:"bytes"`
	LastUsed time.Time `json:"last_used"`
}

type pageFilesJSON struct {
	Groups []pageGroupJSON `json:"groups"`
	Pages  int             `json:"pages"`
	Bytes  int64           `json:"bytes"`
	// Removed is there for prune alone: false after a dry run.
	Removed *bool `json:"removed,omitempty"`
}

func (a *app) pagesCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "pages",
		Short: "Look after the files of context pages, with or without a running supervisor",
		Args:  noCommand,
		RunE:  helpOnly,
	}
	var f pagesFlags
	root.PersistentFlags().StringArrayVar(&f.dirs, "dir", nil, "folder of pages (default: those of all slots in the state directory); may be repeated")
	root.PersistentFlags().StringVarP(&f.config, "config", "c", "", "configuration whose slots' pages count as declared")
	root.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	list := &cobra.Command{
		Use: "list", Short: "Count the pages of each identity", Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pagesList(cmd.Context(), f, true) },
	}
	size := &cobra.Command{
		Use: "size", Short: "Say how much the pages take", Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pagesList(cmd.Context(), f, false) },
	}
	prune := &cobra.Command{
		Use:   "prune",
		Short: "Remove pages of older formats and what is in quarantine",
		Long: "Removes files of an older format, damaged ones and those in quarantine. With --config also pages of\n" +
			"identities that it does not declare, older layouts among them, and with --older-than those that were not\n" +
			"used for that long. A running supervisor may use the folders meanwhile.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pagesPrune(cmd.Context(), f) },
	}
	prune.Flags().DurationVar(&f.older, "older-than", 0, "remove pages that were not used for that long, such as 720h")
	prune.Flags().BoolVar(&f.dry, "dry-run", false, "say what would be removed and remove nothing")
	root.AddCommand(list, size, prune)
	return root
}

// pagesScope is what a command is about: folders, and with a configuration what
// its slots use.
type pagesScope struct {
	folders  []string
	declared map[pages.Space]bool
}

func (a *app) pagesScope(ctx context.Context, f pagesFlags) (s pagesScope, err error) {
	state := a.statePath()
	if f.config != "" {
		cfg, err := a.loadConfig(f.config)
		if err != nil {
			return s, err
		}
		if a.stateDir == "" && cfg.StateDir != "" {
			state = cfg.StateDir
		}
		d, err := declarationOf(cfg)
		if err != nil {
			return s, err
		}
		identities, err := supervisor.Identities(ctx, state, d.Slots)
		if err != nil {
			return s, fmt.Errorf("cannot tell which pages the configuration uses: %w", err)
		}
		s.declared = map[pages.Space]bool{}
		for _, id := range identities {
			s.declared[pages.NewSpace(id, "")] = true
		}
	}
	if s.folders = f.dirs; len(s.folders) == 0 {
		s.folders, err = pages.Folders(state)
	}
	return s, err
}

// unsalted is a space as any salt of its slot has it.
func unsalted(s pages.Space) pages.Space {
	s.Salt = ""
	return s
}

func (a *app) pagesList(ctx context.Context, f pagesFlags, groups bool) error {
	scope, err := a.pagesScope(ctx, f)
	if err != nil {
		return err
	}
	set := scope.declared
	doc := pageFilesJSON{Groups: []pageGroupJSON{}}
	for _, dir := range scope.folders {
		files, err := pages.NewFolder(dir).Files(ctx)
		if err != nil {
			return err
		}
		doc.add(dir, files, set)
	}
	return a.printPages(doc, f, groups)
}

func (a *app) pagesPrune(ctx context.Context, f pagesFlags) error {
	if f.older < 0 {
		return &usageError{shared.Errorf(shared.KindInvalid, "--older-than is negative")}
	}
	scope, err := a.pagesScope(ctx, f)
	if err != nil {
		return err
	}
	set := scope.declared
	now := time.Now()
	unwanted := func(file pages.FolderFile) bool {
		switch file.State {
		case pages.FileOlder, pages.FileDamaged, pages.FileAside:
			return true
		case pages.FileNewer:
			return false // another version's, which may come back
		}
		return set != nil && !set[unsalted(file.Space)] || f.older > 0 && now.Sub(file.Used) > f.older
	}
	removed := !f.dry
	doc := pageFilesJSON{Groups: []pageGroupJSON{}, Removed: &removed}
	for _, dir := range scope.folders {
		files, err := pages.NewFolder(dir).Prune(ctx, unwanted, f.dry)
		if err != nil {
			return err
		}
		doc.add(dir, files, set)
	}
	return a.printPages(doc, f, true)
}

// add counts files.
func (doc *pageFilesJSON) add(dir string, files []pages.FolderFile, set map[pages.Space]bool) {
	for _, file := range files {
		g := pageGroupJSON{
			Folder: dir, State: string(file.State), ModelRevision: file.Space.ModelRevision, TokenizerRevision: file.Space.TokenizerRevision,
			LayoutRevision: file.Space.LayoutRevision, SlotRevision: file.Space.SlotRevision, Salted: file.Space.Salt != "",
		}
		at := slices.IndexFunc(doc.Groups, func(o pageGroupJSON) bool {
			return o.Folder == g.Folder && o.State == g.State && o.ModelRevision == g.ModelRevision && o.TokenizerRevision == g.TokenizerRevision &&
				o.LayoutRevision == g.LayoutRevision && o.SlotRevision == g.SlotRevision && o.Salted == g.Salted
		})
		if at < 0 {
			if set != nil && file.State == pages.FileUsable {
				known := set[unsalted(file.Space)]
				g.Declared = &known
			}
			at = len(doc.Groups)
			doc.Groups = append(doc.Groups, g)
		}
		known := &doc.Groups[at]
		known.Pages++
		known.Tokens += file.Tokens
		known.Bytes += file.Bytes
		if file.Used.After(known.LastUsed) {
			known.LastUsed = file.Used
		}
		doc.Pages++
		doc.Bytes += file.Bytes
	}
	slices.SortStableFunc(doc.Groups, func(x, y pageGroupJSON) int { return strings.Compare(x.Folder, y.Folder) })
}

func (a *app) printPages(doc pageFilesJSON, f pagesFlags, groups bool) error {
	if f.json {
		return a.printJSON(doc)
	}
	if groups && len(doc.Groups) > 0 {
		t := table(a.out)
		fmt.Fprintln(t, "SLOT\tSTATE\tMODEL\tLAYOUT\tSLOT REVISION\tDECLARED\tPAGES\tTOKENS\tSIZE\tLAST USED")
		for _, g := range doc.Groups {
			declared := "-"
			if g.Declared != nil {
				declared = map[bool]string{true: "yes", false: "no"}[*g.Declared]
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", filepath.Base(filepath.Dir(g.Folder)), g.State,
				dash(shared.ShortRevision(g.ModelRevision)), dash(shared.ShortRevision(g.LayoutRevision)), dash(shared.ShortRevision(g.SlotRevision)),
				declared, g.Pages, g.Tokens, humanize.IBytes(uint64(g.Bytes)), g.LastUsed.Format(time.DateOnly))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	what := "pages"
	if doc.Removed != nil {
		what = map[bool]string{true: "pages removed", false: "pages would be removed"}[*doc.Removed]
	}
	_, err := fmt.Fprintf(a.out, "%d %s, %s\n", doc.Pages, what, humanize.IBytes(uint64(doc.Bytes)))
	return err
}
