package pages

// Reason says why tokens of a prompt were not served from pages.
type Reason string

// The miss reasons.
const (
	ReasonModelRevision     Reason = "model_revision"
	ReasonTokenizerRevision Reason = "tokenizer_revision"
	ReasonLayoutRevision    Reason = "layout_revision"
	ReasonSlotRevision      Reason = "slot_revision"
	ReasonPageIndex         Reason = "page_index"
	ReasonTokenHash         Reason = "token_hash"        // no such page is known
	ReasonTokenMismatch     Reason = "token_mismatch"    // equal hash, other tokens
	ReasonChecksum          Reason = "checksum"          // the page's file is damaged
	ReasonRestoreShort      Reason = "restore_short"     // the engine did not take the state
	ReasonArchNotReusable   Reason = "arch_not_reusable" // this memory cannot be cut at a page
	ReasonSalt              Reason = "salt"              // the page belongs to another tenant
)

// Public is the reason as the owner of the request may know it. That another
// tenant holds pages of the same prompt is not theirs to know, so a page under
// another salt looks like no page.
func (r Reason) Public() Reason {
	if r == ReasonSalt {
		return ReasonTokenHash
	}
	return r
}
