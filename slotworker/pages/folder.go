package pages

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// FileState says what can be told of a page's file without its payload.
type FileState string

// The states of files.
const (
	FileUsable  FileState = "usable"
	FileOlder   FileState = "older_format"
	FileNewer   FileState = "newer_format"
	FileDamaged FileState = "damaged"
	// FileAside is a page that was found wrong and moved into the quarantine.
	FileAside FileState = "quarantined"
)

// FolderFile is one page in a folder. Of files that are not usable nothing is
// known but their size and age.
type FolderFile struct {
	Path   string
	State  FileState
	Bytes  int64
	Used   time.Time
	Space  Space
	Tokens int
}

// Folder is a directory of pages as people look after it, whether or not stores
// use it at the same time.
type Folder struct{ disk *disk }

// folderWait is how long a prune waits while a store changes the directory.
const folderWait = 10 * time.Second

// NewFolder names a folder. Nothing is opened.
func NewFolder(dir string) Folder {
	return Folder{newDisk(dir, math.MaxInt64, NewOSFiles(), folderWait)}
}

// Files lists the pages, reading their headers. A folder that is not there has none.
func (f Folder) Files(ctx context.Context) ([]FolderFile, error) {
	pages, err := f.disk.list()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []FolderFile
	for _, p := range pages {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		file := FolderFile{Path: f.disk.path(p.name), Bytes: p.bytes, Used: p.used}
		page, err := f.disk.openPage(opScan, p.name)
		switch {
		case err == nil:
			h := &page.header
			file.State, file.Space, file.Tokens = FileUsable, h.space, len(h.tokens)
			if h.name() != p.name || h.fileBytes() != p.bytes {
				file = FolderFile{Path: file.Path, State: FileDamaged, Bytes: p.bytes, Used: p.used}
			}
			page.close()
		case errors.Is(err, errOldVersion):
			file.State = FileOlder
		case errors.Is(err, errVersion):
			file.State = FileNewer
		case errors.Is(err, errDamaged):
			file.State = FileDamaged
		case errors.Is(err, fs.ErrNotExist):
			continue // a store has removed it
		default:
			return nil, err
		}
		files = append(files, file)
	}
	aside, err := f.aside()
	return append(files, aside...), err
}

// aside lists the quarantine.
func (f Folder) aside() ([]FolderFile, error) {
	dir := filepath.Join(f.disk.dir, quarantineDir)
	entries, err := f.disk.ops.List(opQuarantine, dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var files []FolderFile
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.Contains(e.Name(), pageSuffix) {
			continue
		}
		files = append(files, FolderFile{Path: filepath.Join(dir, e.Name()), State: FileAside, Bytes: info.Size(), Used: info.ModTime()})
	}
	return files, nil
}

// Prune removes the files that it is told to and gives them. A store that uses
// the folder meanwhile finds that they are gone, which is a miss. With dry set
// nothing is removed.
func (f Folder) Prune(ctx context.Context, unwanted func(FolderFile) bool, dry bool) (removed []FolderFile, err error) {
	files, err := f.Files(ctx)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if unwanted(file) {
			removed = append(removed, file)
		}
	}
	if dry || len(removed) == 0 {
		return removed, nil
	}
	err = f.disk.locked(ctx, func() error {
		if err := f.disk.join(); err != nil {
			return err
		}
		for i, file := range removed {
			if err := ignoreMissing(f.disk.ops.Remove(opEvict, file.Path)); err != nil {
				removed = removed[:i]
				return err
			}
		}
		_, err := f.disk.shrink(0) // counts what is left
		return err
	})
	return removed, errors.Join(err, f.disk.leave())
}

// Folders finds the page directories in a state directory of a supervisor.
func Folders(stateDir string) ([]string, error) {
	if _, err := os.Stat(stateDir); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(stateDir, "slots", "*", "pages"))
}
