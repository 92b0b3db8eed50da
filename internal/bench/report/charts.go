package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-analyze/charts"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
)

// picture is one chart. Its name is that of its file.
type picture struct {
	Name, Title, Note string
	SVG               string
}

const (
	width = 860
	// Colours that stand apart also for those who do not see all of them.
	gold, blue, green, grey = "#c98500", "#2a6fbb", "#2f8f5b", "#8a8f98"
)

// phaseColours are those of the four runtime phases, and grey for the rest.
func phaseColour(p shared.Phase) charts.Color {
	switch p.Group() {
	case shared.GroupSlot:
		return charts.ParseColor(grey)
	case shared.GroupActivation:
		return charts.ParseColor(gold)
	case shared.GroupContext:
		return charts.ParseColor(blue)
	case shared.GroupDelivery:
		return charts.ParseColor(green)
	}
	return charts.ParseColor("#c4c7cc")
}

func theme(colours ...charts.Color) charts.ColorPalette {
	return charts.GetTheme(charts.ThemeLight).WithSeriesColors(colours)
}

// bars draws horizontal bars, each series stacked on the one before.
type bars struct {
	rows    []string // from the top
	series  []string
	values  [][]float64 // by series, then row
	colours []charts.Color
	unit    string
	stacked bool
	legend  bool
	label   bool
}

func (b bars) draw() (string, error) {
	opt := charts.NewBarChartOptionWithData(upsideDown(b.visible()))
	opt.Horizontal = true
	opt.StackSeries = charts.Ptr(b.stacked)
	opt.CategoryAxis.Labels = slices.Clone(b.rows)
	slices.Reverse(opt.CategoryAxis.Labels)
	opt.ValueAxis[0].Min = charts.Ptr(0.0)
	opt.ValueAxis[0].Max = charts.Ptr(b.longest())
	opt.ValueAxis[0].RangeValuePaddingScale = charts.Ptr(0.0)
	opt.ValueAxis[0].Title = b.unit
	opt.ValueFormatter = short
	opt.Theme = theme(b.colours...)
	opt.Legend.SeriesNames = b.series
	opt.Legend.Show = charts.Ptr(b.legend)
	for i := range opt.SeriesList {
		opt.SeriesList[i].Label.Show = charts.Ptr(b.label)
	}
	height := 90 + len(b.rows)*(14+14*max(1, len(b.series)*boolInt(!b.stacked)))
	p := painter(height)
	if err := p.BarChart(opt); err != nil {
		return "", err
	}
	return finish(p)
}

// longest is where the axis ends, with room for a label.
func (b bars) longest() float64 {
	most := 0.0
	for row := range b.rows {
		sum := 0.0
		for _, v := range b.values {
			if b.stacked {
				sum += v[row]
			} else {
				sum = max(sum, v[row])
			}
		}
		most = max(most, sum)
	}
	const room = 1.08
	return max(most*room, 1e-6) // an axis of no length cannot be drawn
}

// visible has nothing for what is shorter than half a pixel. The library would
// begin a stacked axis below zero to make room for it.
func (b bars) visible() [][]float64 {
	least := b.longest() / (2 * width)
	out := make([][]float64, len(b.values))
	for i, values := range b.values {
		for _, v := range values {
			if b.stacked && v < least {
				v = 0
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// upsideDown has the last row first: the library draws from the bottom.
func upsideDown(values [][]float64) [][]float64 {
	out := make([][]float64, len(values))
	for i, v := range values {
		out[i] = slices.Clone(v)
		slices.Reverse(out[i])
	}
	return out
}

// lines draws curves over places that are evenly apart, whatever their distance.
type lines struct {
	places  []string
	series  []string
	values  [][]float64
	x, unit string
}

func (l lines) draw() (string, error) {
	opt := charts.NewLineChartOptionWithData(l.values)
	opt.XAxis.Labels = l.places
	opt.XAxis.Title = l.x
	opt.YAxis[0].Title = l.unit
	opt.YAxis[0].Min = charts.Ptr(0.0)
	opt.Legend.SeriesNames = l.series
	opt.ValueFormatter = short
	opt.Theme = theme(charts.ParseColor(blue), charts.ParseColor(gold), charts.ParseColor(green), charts.ParseColor(grey), charts.ParseColor("#7a3b8f"), charts.ParseColor("#b3413a"))
	p := painter(320)
	if err := p.LineChart(opt); err != nil {
		return "", err
	}
	return finish(p)
}

func painter(height int) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: width, Height: height})
}

func finish(p *charts.Painter) (string, error) {
	data, err := p.Bytes()
	return string(data), err
}

// short is a number with the digits that mean something.
func short(v float64) string {
	digits := 0
	switch a := math.Abs(v); {
	case a == 0 || a >= 100:
	case a >= 10:
		digits = 1
	case a >= 0.1:
		digits = 2
	default:
		digits = 4
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// waterfall is one case's phases, each beginning where the one before ends.
func waterfall(c bench.Case) (picture, error) {
	phases := (shared.Phases{}).List()
	b := bars{unit: "ms", stacked: true, series: []string{""}, colours: []charts.Color{charts.ColorTransparent}}
	b.values = [][]float64{make([]float64, len(phases))} // what comes before, unseen
	sum := 0.0
	for i, p := range phases {
		ms := c.PhaseMS[string(p.Phase)].Median
		b.rows = append(b.rows, fmt.Sprintf("%s %s", p.Phase, short(ms)))
		length := make([]float64, len(phases)) // a series of its own for its colour
		length[i] = ms
		b.values[0][i] = sum
		b.series, b.values, b.colours = append(b.series, string(p.Phase)), append(b.values, length), append(b.colours, shade(phaseColour(p.Phase), p.Phase))
		sum += ms
	}
	svg, err := b.draw()
	return picture{
		Name: "phases-" + c.Case, Title: c.Case,
		Note: fmt.Sprintf("Median of each phase over %d runs; first chunk: median %s ms, p95 %s ms.", c.Runs, short(c.FirstChunkMS.Median), short(c.FirstChunkMS.P95)),
		SVG:  svg,
	}, err
}

// overview is the phases of several cases as stacked bars on one scale.
func overview(name, title string, cases []bench.Case) (picture, error) {
	b := bars{unit: "ms", stacked: true, legend: true}
	for _, c := range cases {
		b.rows = append(b.rows, c.Case)
	}
	for _, p := range (shared.Phases{}).List() {
		var values []float64
		for _, c := range cases {
			values = append(values, c.PhaseMS[string(p.Phase)].Median)
		}
		b.series, b.values, b.colours = append(b.series, string(p.Phase)), append(b.values, values), append(b.colours, shade(phaseColour(p.Phase), p.Phase))
	}
	svg, err := b.draw()
	return picture{Name: name, Title: title, Note: "Medians of the phases, on one scale.", SVG: svg}, err
}

// shade tells the two phases of one group apart.
func shade(c charts.Color, p shared.Phase) charts.Color {
	switch p {
	case shared.PhaseQueue, shared.PhaseContextLookup, shared.PhaseFirstChunkFlush:
		return c.WithAlpha(140)
	}
	return c
}

// percentilesOf are the first chunks of several cases by percentile.
func percentilesOf(runs []bench.Run, cases []bench.Case) (picture, error) {
	at := []int{1, 10, 25, 50, 75, 90, 95, 100}
	l := lines{x: "percentile of the runs", unit: "ms"}
	for _, p := range at {
		l.places = append(l.places, strconv.Itoa(p))
	}
	for _, c := range cases {
		var first []float64
		for _, r := range runs {
			if r.Case == c.Case {
				first = append(first, r.FirstChunkMS)
			}
		}
		if len(first) == 0 {
			continue
		}
		slices.Sort(first)
		var values []float64
		for _, p := range at {
			values = append(values, first[max((p*len(first)+99)/100, 1)-1])
		}
		l.series, l.values = append(l.series, c.Case), append(l.values, values)
	}
	svg, err := l.draw()
	return picture{Name: "distribution-cases", Title: "First chunk by percentile", Note: "Cases whose slot was found resident.", SVG: svg}, err
}
