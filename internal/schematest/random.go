// Package schematest makes random JSON schemas for tests.
package schematest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Random is a schema whose values are bounded: it has a few levels, and lengths
// and counts of a few.
func Random(rnd *rand.Rand) string { return schema(rnd, 2, true) }

func pick(rnd *rand.Rand, list ...string) string { return list[rnd.IntN(len(list))] }

func schema(rnd *rand.Rand, depth int, top bool) string {
	if top || depth > 0 && rnd.IntN(3) == 0 {
		if rnd.IntN(3) > 0 {
			return object(rnd, depth)
		}
		return array(rnd, depth)
	}
	switch rnd.IntN(9) {
	case 0:
		low := rnd.IntN(200) - 100
		return fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, low, low+rnd.IntN(2000))
	case 1:
		low := rnd.IntN(20) - 10
		return fmt.Sprintf(`{"type":"number",%q:%d,%q:%d}`, pick(rnd, "minimum", "exclusiveMinimum"), low,
			pick(rnd, "maximum", "exclusiveMaximum"), low+1+rnd.IntN(40))
	case 2:
		return pick(rnd, `{"type":"boolean"}`, `{"type":"null"}`, `{"const":"fixed \"text\""}`, `{"type":["boolean","null"]}`)
	case 3:
		return `{"enum":["red","green","blue é",7,null,{"a":[1]}]}`
	case 4:
		return fmt.Sprintf(`{"type":"string","pattern":%q}`, pick(rnd, `^[A-Z]{2}-[0-9]{1,3}$`, `^(yes|no)$`, `^[^x"]{1,4}$`, `^\d{4}\.?$`))
	case 5:
		return fmt.Sprintf(`{"type":"string","format":%q}`, pick(rnd, "date", "time", "date-time", "uuid"))
	case 6:
		return fmt.Sprintf(`{%q:[{"type":"integer","minimum":0,"maximum":9},{"type":"string","maxLength":3}]}`, pick(rnd, "anyOf", "oneOf"))
	default:
		low := rnd.IntN(4)
		return fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d}`, low, low+rnd.IntN(12))
	}
}

func object(rnd *rand.Rand, depth int) string {
	var props, required []string
	for i := range 1 + rnd.IntN(3) {
		name := fmt.Sprintf("%q", pick(rnd, "name", "größe", "a b", "x/y")+fmt.Sprint(i))
		props = append(props, name+":"+schema(rnd, depth-1, false))
		if rnd.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":%s}`,
		strings.Join(props, ","), strings.Join(required, ","), pick(rnd, "false", "true"))
}

func array(rnd *rand.Rand, depth int) string {
	low := rnd.IntN(3)
	high := low + rnd.IntN(3)
	if rnd.IntN(3) == 0 {
		return fmt.Sprintf(`{"type":"array","prefixItems":[%s,%s],"items":%s,"minItems":%d,"maxItems":%d}`,
			schema(rnd, depth-1, false), schema(rnd, depth-1, false), schema(rnd, depth-1, false), low, high)
	}
	return fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, schema(rnd, depth-1, false), low, high)
}

// RandomObject is a schema of an object, as the parameters of a tool are.
func RandomObject(rnd *rand.Rand) string { return object(rnd, 2) }
