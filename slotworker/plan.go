package slotworker

// take is one sequence's share of a step: count rows, of which the one at index
// logits (into the step's rows) is computed to the end, or none when it is -1.
type take struct {
	seq    *sequence
	count  int
	logits int
}

// plan decides the rows of the next step. Every sequence that decodes gets its
// one row; of those that prefill, the one admitted first gets up to chunk rows.
// What no page covers is therefore always cut into the same chunks, whatever
// else runs. With a page size, chunks are whole pages and the rest of the prompt,
// at least one token, is a chunk of its own: then the chunks that compute a page
// have as many rows as full pages have, whatever was covered. It changes nothing and only appends to the given slices.
func plan(admitted []*sequence, chunk, page int, rows []Row, takes []take) ([]Row, []take) {
	var prefill *sequence
	for _, s := range admitted {
		switch {
		case !s.prefilling():
			takes = append(takes, take{seq: s, count: 1, logits: len(rows)})
			rows = append(rows, Row{Token: s.next, Pos: int32(s.filled), Seq: s.id, Logits: true})
		case prefill == nil:
			prefill = s
		}
	}
	if prefill == nil {
		return rows, takes
	}
	todo := prefill.req.prompt[prefill.filled:]
	n := min(chunk, len(todo))
	if page > 0 {
		if full := (len(prefill.req.prompt) - 1) / page * page; prefill.filled < full {
			n = min(chunk, full-prefill.filled)
		}
	}
	t := take{seq: prefill, count: n, logits: -1}
	for i, token := range todo[:n] {
		rows = append(rows, Row{Token: token, Pos: int32(prefill.filled + i), Seq: prefill.id})
	}
	if n == len(todo) {
		t.logits = len(rows) - 1
		rows[t.logits].Logits = true
	}
	return rows, append(takes, t)
}
