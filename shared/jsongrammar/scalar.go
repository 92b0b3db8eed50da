package jsongrammar

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// character is one character of a JSON string, escaped or not. Halves of
// surrogate pairs are left out, so that each is one character.
const character = `([\x20-\x21\x23-\x5b\x5d-\x7e\u00a0-\ud7ff\ue000-\U0010ffff] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2})))`

func (c *converter) character() string { return c.rule(character) }

func (c *converter) anyText() string { return c.rule(`"\"" ` + c.character() + `* "\""`) }

// is says whether a value is of a type.
func (v *value) is(t string) bool {
	switch v.kind {
	case '{':
		return t == "object"
	case '[':
		return t == "array"
	case '"':
		return t == "string"
	case 'n':
		return t == "null"
	case '0':
		r, ok := v.rational()
		return t == "number" || t == "integer" && ok && r.IsInt()
	default:
		return t == "boolean"
	}
}

// rational is a number's exact value. Numbers whose exponent would make them huge have none.
func (v *value) rational() (*big.Rat, bool) {
	if v.kind != '0' || len(v.text) > 40 {
		return nil, false
	}
	if _, exp, ok := strings.Cut(strings.ToLower(v.text), "e"); ok {
		if n, err := strconv.Atoi(exp); err != nil || n > 30 || n < -30 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(v.text)
}

// count reads a keyword that is a number from 0; def when it is not there.
func count(s *value, keyword, path string, def int) (int, error) {
	v := s.get(keyword)
	if v == nil {
		return def, nil
	}
	r, ok := v.rational()
	if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() || r.Num().Int64() > maxCount {
		return 0, fail(keyword, path, "it is not a whole number from 0 to %d", maxCount)
	}
	return int(r.Num().Int64()), nil
}

// maxCount bounds lengths. noCount stands for no upper bound.
const (
	maxCount = 1 << 16
	noCount  = -1
)

// times is how a grammar writes a count.
func times(low, high int) string {
	switch {
	case high == noCount && low == 0:
		return "*"
	case high == noCount:
		return fmt.Sprintf("{%d,}", low)
	default:
		return fmt.Sprintf("{%d,%d}", low, high)
	}
}

// limits reads the least and the most of a pair of keywords.
func limits(s *value, low, high, path string) (int, int, error) {
	least, err := count(s, low, path, 0)
	if err != nil {
		return 0, 0, err
	}
	most, err := count(s, high, path, noCount)
	if err == nil && most != noCount && most < least {
		err = fail(high, path, "it is less than %s", low)
	}
	return least, most, err
}

func (c *converter) text(s *value, path string) (string, error) {
	least, most, err := limits(s, "minLength", "maxLength", path)
	if err != nil {
		return "", err
	}
	bounded := s.has("minLength", "maxLength")
	for _, other := range []string{"format", "pattern"} {
		v := s.get(other)
		switch {
		case v == nil:
			continue
		case v.kind != '"':
			return "", fail(other, path, "it is no text")
		case bounded || s.has("format") && s.has("pattern"):
			return "", fail(other, path, "together with another keyword for text "+unsupported)
		case other == "pattern":
			return c.pattern(v.text, path)
		}
		body, ok := formats()[v.text]
		if !ok {
			return "", fail(other, path, "%q "+unsupported, v.text)
		}
		return c.rule(`"\"" ` + body + ` "\""`), nil
	}
	if !bounded {
		return c.anyText(), nil
	}
	return c.rule(`"\"" ` + c.character() + times(least, most) + ` "\""`), nil
}

// formats are those of which every text that the grammar makes is right. Leap
// days and leap seconds are left out.
func formats() map[string]string {
	const day = `(("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))`
	const date = `[0-9]{4} "-" ` + day
	const hour = `([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]`
	const clock = hour + ` ":" [0-5] [0-9] ("." [0-9]{1,9})? ("Z" | [-+] ` + hour + `)`
	const hex = `[0-9a-f]`
	return map[string]string{
		"date":      date,
		"time":      clock,
		"date-time": date + ` "T" ` + clock,
		"uuid":      hex + `{8} "-" ` + hex + `{4} "-" ` + hex + `{4} "-" ` + hex + `{4} "-" ` + hex + `{12}`,
	}
}

// bound is one end of a range of numbers.
type bound struct {
	at   int64
	open bool // the end itself is outside
}

// largest is the largest whole number that grammars make: one that every reader
// of JSON keeps exactly.
const largest = 999_999_999_999_999

// ends reads the range of a number. Of integers the ends may have a fraction.
func ends(s *value, path string, whole bool) (low, high bound, err error) {
	low, high = bound{at: -largest}, bound{at: largest}
	for _, k := range []struct {
		name string
		end  *bound
		up   bool
		open bool
	}{
		{"minimum", &low, true, false}, {"exclusiveMinimum", &low, true, true},
		{"maximum", &high, false, false}, {"exclusiveMaximum", &high, false, true},
	} {
		v := s.get(k.name)
		if v == nil {
			continue
		}
		r, ok := v.rational()
		switch {
		case !ok:
			return low, high, fail(k.name, path, "it is no number that is supported")
		case !r.IsInt() && !whole:
			return low, high, fail(k.name, path, "a bound with a fraction "+unsupported)
		}
		at, open := floor(r), k.open
		if !r.IsInt() {
			open = false
			if k.up {
				at.Add(at, big.NewInt(1))
			}
		}
		if whole && open {
			step := map[bool]int64{true: 1, false: -1}[k.up]
			at.Add(at, big.NewInt(step))
			open = false
		}
		if !at.IsInt64() || at.Int64() > largest || at.Int64() < -largest {
			return low, high, fail(k.name, path, "a bound of more than 15 digits "+unsupported)
		}
		n := at.Int64()
		if n == k.end.at {
			k.end.open = k.end.open || open
		} else if k.up == (n > k.end.at) {
			*k.end = bound{n, open}
		}
	}
	if low.at > high.at || low.at == high.at && (low.open || high.open) {
		return low, high, fail("minimum", path, "no number is in the range")
	}
	return low, high, nil
}

func floor(r *big.Rat) *big.Int {
	// Euclidean division rounds down when the divisor is positive.
	return new(big.Int).Div(r.Num(), r.Denom())
}

func checkMultiple(s *value, path string, whole bool) error {
	v := s.get("multipleOf")
	if v == nil || whole && v.text == "1" {
		return nil
	}
	return fail("multipleOf", path, "not supported")
}

func (c *converter) integer(s *value, path string) (string, error) {
	if err := checkMultiple(s, path, true); err != nil {
		return "", err
	}
	low, high, err := ends(s, path, true)
	if err != nil {
		return "", err
	}
	if low.at == -largest && high.at == largest {
		return c.rule(`"-"? ("0" | [1-9] [0-9]{0,14})`), nil
	}
	var list []string
	if low.at < 0 {
		list = append(list, `"-" `+digits(max(1, -high.at), -low.at))
	}
	if high.at >= 0 {
		list = append(list, digits(max(0, low.at), high.at))
	}
	return c.rule(strings.Join(list, " | ")), nil
}

func (c *converter) anyNumber() string {
	return c.rule(`"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`)
}

func (c *converter) number(s *value, path string) (string, error) {
	if err := checkMultiple(s, path, false); err != nil {
		return "", err
	}
	if !s.has("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") {
		return c.anyNumber(), nil
	}
	low, high, err := ends(s, path, false)
	if err != nil {
		return "", err
	}
	var list []string
	if low.at < 0 {
		from := bound{-high.at, high.open}
		if high.at > 0 || high.at == 0 && !high.open {
			from = bound{0, true} // zero has no sign here
		}
		list = append(list, decimals(`"-" `, from, bound{-low.at, low.open})...)
	}
	if high.at >= 0 {
		from := low
		if low.at < 0 {
			from = bound{0, false}
		}
		list = append(list, decimals("", from, high)...)
	}
	return c.rule(strings.Join(list, " | ")), nil
}

// decimals are the numbers of a range that is not negative, with a sign before each.
func decimals(sign string, low, high bound) []string {
	const fraction, above, zeros = `("." [0-9]{1,15})?`, `"." [0-9]{0,14} [1-9]`, `("." "0"{1,3})?`
	var list []string
	from := low.at
	if low.open && low.at < high.at {
		list = append(list, sign+literal(strconv.FormatInt(low.at, 10))+" "+above)
		from++
	}
	if from < high.at {
		list = append(list, sign+digits(from, high.at-1)+" "+fraction)
	}
	if !high.open && from <= high.at {
		list = append(list, sign+literal(strconv.FormatInt(high.at, 10))+" "+zeros)
	}
	return list
}

// digits are the whole numbers from low to high, neither negative.
func digits(low, high int64) string {
	var list []string
	for length := len(strconv.FormatInt(low, 10)); ; length++ {
		last, err := strconv.ParseInt(strings.Repeat("9", length), 10, 64)
		if err != nil || last >= high {
			return oneOfThese(append(list, sameLength(strconv.FormatInt(low, 10), strconv.FormatInt(high, 10))))
		}
		list = append(list, sameLength(strconv.FormatInt(low, 10), strconv.FormatInt(last, 10)))
		low = last + 1
	}
}

// sameLength are the numbers from low to high, which have the same number of digits.
func sameLength(low, high string) string {
	n := len(low)
	switch {
	case n == 0:
		return `""`
	case low == high:
		return literal(low)
	case strings.Trim(low[1:], "0") == "" && strings.Trim(high[1:], "9") == "":
		return someDigits(low[0], high[0], n-1)
	case low[0] == high[0]:
		return literal(low[:1]) + " " + sameLength(low[1:], high[1:])
	}
	first, last := low[0], high[0]
	var list []string
	if strings.Trim(low[1:], "0") != "" {
		list = append(list, literal(low[:1])+" "+sameLength(low[1:], strings.Repeat("9", n-1)))
		first++
	}
	var end string
	if strings.Trim(high[1:], "9") != "" {
		end = literal(high[:1]) + " " + sameLength(strings.Repeat("0", n-1), high[1:])
		last--
	}
	if first <= last {
		list = append(list, someDigits(first, last, n-1))
	}
	if end != "" {
		list = append(list, end)
	}
	return oneOfThese(slices.Clip(list))
}

func someDigits(first, last byte, more int) string {
	s := fmt.Sprintf("[%c-%c]", first, last)
	switch more {
	case 0:
		return s
	case 1:
		return s + " [0-9]"
	default:
		return fmt.Sprintf("%s [0-9]{%d}", s, more)
	}
}
