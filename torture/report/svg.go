package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The measures of the picture, in pixels.
const (
	svgTime   = 110 // the column of the times
	svgLane   = 280
	svgTop    = 80
	svgRow    = 24
	svgMargin = 16
)

// WriteSVG draws the timeline as a picture.
func (t *Timeline) WriteSVG(w io.Writer) error {
	p := &picture{timeline: t}
	p.frame()
	p.bands()
	for i, r := range t.rows {
		p.event(i, r)
	}
	p.text.WriteString("</svg>\n")
	_, err := io.WriteString(w, p.text.String())
	return err
}

// picture is a timeline being drawn.
type picture struct {
	timeline *Timeline
	text     strings.Builder
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

func (p *picture) width() int {
	return svgTime + len(p.timeline.lanes)*svgLane + 2*svgMargin
}

func (p *picture) height() int { return svgTop + (len(p.timeline.rows)+1)*svgRow + svgMargin }

// x is the axis of a lane, y the middle of a row.
func x(lane int) int { return svgMargin + svgTime + lane*svgLane + 14 }
func y(row int) int  { return svgTop + row*svgRow + svgRow/2 }

// frame draws the title, and the head and the axis of each lane.
func (p *picture) frame() {
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="Helvetica, Arial, sans-serif" font-size="12">`,
		p.width(), p.height(), p.width(), p.height())
	p.add(`<rect width="100%%" height="100%%" fill="white"/>`)
	p.label(svgMargin, 28, "#111", `font-size="15" font-weight="bold"`, p.timeline.title)
	for i, lane := range p.timeline.lanes {
		p.label(x(i)-6, svgTop-16, "#111", `font-weight="bold"`, lane)
		p.add(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#bbb"/>`, x(i), svgTop-6, x(i), p.height()-svgMargin)
	}
}

// bands draws where there were two holders, what was disturbed, and the leases.
func (p *picture) bands() {
	rows := p.timeline.rows
	for i := range len(rows) {
		r := rows[i]
		if r.twoHolders() {
			p.band(i, svgMargin, p.width()-2*svgMargin, "#fbd5d5")
		}
		for lane := range p.timeline.lanes {
			if r.hit[lane] && lane == faultLane {
				p.band(i, svgMargin+svgTime, p.width()-2*svgMargin-svgTime, "#ffecc7")
			}
		}
	}
	for i, r := range rows {
		for lane := range p.timeline.lanes {
			if r.hit[lane] && lane != faultLane {
				p.band(i, x(lane)-8, 16, "#ffb84d")
			}
			if r.after[lane] > 0 {
				p.band(i, x(lane)-5, 10, "#2f6fb5")
			}
		}
	}
}

// band fills from the row's middle to the next one's.
func (p *picture) band(row, left, width int, colour string) {
	p.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, left, y(row), width, svgRow, colour)
}

// event draws a row's time, its mark and its text.
func (p *picture) event(i int, r row) {
	p.label(svgMargin+svgTime-10, y(i)+4, "#555", `text-anchor="end"`, p.timeline.since(r))
	colour := "#222"
	if r.bad {
		colour = "#b00020"
	}
	p.add(`<circle cx="%d" cy="%d" r="4.5" fill="%s" stroke="white"/>`, x(r.lane), y(i), colour)
	p.label(x(r.lane)+14, y(i)+4, colour, "", r.text)
}

func (p *picture) label(left, base int, colour, style, text string) {
	p.add(`<text x="%d" y="%d" fill="%s" %s>%s</text>`, left, base, colour, style, html.EscapeString(text))
}
