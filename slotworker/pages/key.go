package pages

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/firstframe/firstframe/shared"
)

// Domain tags of everything this package hashes.
const (
	domainRoot  = "firstframe/context-page/root/v1"
	domainChain = "firstframe/context-page/chain/v1"
	domainSalt  = "firstframe/context-page/salt/v1"
	domainFile  = "firstframe/context-page/file/v1"
	domainShape = "firstframe/context-page/shape/v1"
)

// Hash is a token hash: it covers all tokens up to the end of a page.
type Hash [sha256.Size]byte

// String is the form that a ContextPageKey carries.
func (h Hash) String() string { return "sha256:" + hex.EncodeToString(h[:]) }

// Hasher computes a page's hash from that of the page before it and its own
// token ids. Lookups stay right under any Hasher, also one that collides.
type Hasher func(prev Hash, tokens []int32) Hash

// HashSHA256 is the Hasher in use. Tag and tokens are preceded by their lengths,
// so that no two different inputs encode alike.
func HashSHA256(prev Hash, tokens []int32) Hash {
	var scratch [1024]byte
	b := scratch[:0]
	b = binary.BigEndian.AppendUint64(b, uint64(len(domainChain)))
	b = append(b, domainChain...)
	b = append(b, prev[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(tokens)))
	b = appendTokens(b, tokens)
	return sha256.Sum256(b)
}

func appendTokens(b []byte, tokens []int32) []byte {
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return b
}

// Space is everything of a page's key that does not depend on tokens. It is
// comparable. Salt is a digest: the salt itself is kept nowhere.
type Space struct {
	ModelRevision     string
	TokenizerRevision string
	LayoutRevision    string
	SlotRevision      string
	Salt              string
}

// NewSpace makes the space of one identity and one salt; an empty salt means
// the slot's common pages.
func NewSpace(id shared.Identity, salt string) Space {
	s := Space{
		ModelRevision:     id.ModelRevision,
		TokenizerRevision: id.TokenizerRevision,
		LayoutRevision:    id.LayoutRevision,
		SlotRevision:      id.SlotRevision,
	}
	if salt != "" {
		s.Salt = shared.HashFields(domainSalt, salt)
	}
	return s
}

// Key is the full key of a page in this space.
func (s Space) Key(index int, h Hash) shared.ContextPageKey {
	return shared.ContextPageKey{
		ModelRevision:     s.ModelRevision,
		TokenizerRevision: s.TokenizerRevision,
		LayoutRevision:    s.LayoutRevision,
		SlotRevision:      s.SlotRevision,
		PageIndex:         uint32(index),
		TokenHash:         h.String(),
		Salt:              s.Salt,
	}
}

// differs lists the fields in which two spaces are not equal.
func (s Space) differs(o Space) []Reason {
	var d []Reason
	if s.ModelRevision != o.ModelRevision {
		d = append(d, ReasonModelRevision)
	}
	if s.TokenizerRevision != o.TokenizerRevision {
		d = append(d, ReasonTokenizerRevision)
	}
	if s.LayoutRevision != o.LayoutRevision {
		d = append(d, ReasonLayoutRevision)
	}
	if s.SlotRevision != o.SlotRevision {
		d = append(d, ReasonSlotRevision)
	}
	if s.Salt != o.Salt {
		d = append(d, ReasonSalt)
	}
	return d
}

// chain is how prompts of one slot are cut and hashed.
type chain struct {
	page  int
	exact bool
	root  link
	next  Hasher
}

// link identifies a page's tokens together with all tokens before them, twice:
// by the token hash of its key and by a digest that does not come from the
// Hasher, so that equal hashes alone never join a page to a wrong prefix.
type link struct {
	hash Hash
	sum  uint64
}

// newChain roots the hashes in the page size and in how pages are computed:
// pages cut at another size, or computed in other chunks, have other hashes
// everywhere.
func newChain(page int, exact bool, hasher Hasher) *chain {
	root := sha256.Sum256(shared.EncodeFields(domainRoot, strconv.Itoa(page), strconv.FormatBool(exact)))
	return &chain{page: page, exact: exact, root: link{hash: root}, next: hasher}
}

func (c *chain) link(prev link, tokens []int32) link {
	var scratch [1024]byte
	b := binary.LittleEndian.AppendUint64(scratch[:0], prev.sum)
	b = appendTokens(b, tokens)
	return link{hash: c.next(prev.hash, tokens), sum: xxhash.Sum64(b)}
}

// Prompt is a token sequence whose page hashes are computed as far as they are
// asked for, each once. It belongs to one goroutine at a time.
type Prompt struct {
	chain  *chain
	tokens []int32
	links  []link
}

// Append adds generated tokens.
func (p *Prompt) Append(tokens ...int32) { p.tokens = append(p.tokens, tokens...) }

// Tokens is the sequence; it must not be changed.
func (p *Prompt) Tokens() []int32 { return p.tokens }

// Len is the number of tokens.
func (p *Prompt) Len() int { return len(p.tokens) }

// FullPages is the number of complete pages.
func (p *Prompt) FullPages() int { return len(p.tokens) / p.chain.page }

// Hash is the token hash of full page i.
func (p *Prompt) Hash(i int) Hash { return p.link(i).hash }

// link is that of full page i; -1 is the root.
func (p *Prompt) link(i int) link {
	for n := len(p.links); n <= i; n++ {
		p.links = append(p.links, p.chain.link(p.link(n-1), p.pageTokens(n)))
	}
	if i < 0 {
		return p.chain.root
	}
	return p.links[i]
}

func (p *Prompt) pageTokens(i int) []int32 {
	return p.tokens[i*p.chain.page : (i+1)*p.chain.page]
}

// tail is the tokens after the last full page, up to token end.
func (p *Prompt) tail(end int) (index int, tokens []int32) {
	index = end / p.chain.page
	return index, p.tokens[index*p.chain.page : end]
}
