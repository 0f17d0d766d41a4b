/* picture.c - what all pictures of a check share: colours and frame. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/picture.h"

/* Colours are told apart by lightness too, and what is wrong has a sign besides. */
static const char style[] =
	":root { --paper: #fbfbfa; --panel: #ffffff; --ink: #1d1d1f; --dim: #6b6b73;\n"
	"  --line: #d8d8de; --good: #1b7f4d; --warn: #b25e00; --bad: #c3242f;\n"
	"  --warnbg: #fdf1e0; --badbg: #fdeaea; --goodbg: #e6f4ec;\n"
	"  --h0: #e7f0fa; --h1: #c9def3; --h2: #9fc5e8; --h3: #6fa6d9; --h4: #4285c4;\n"
	"  --h5: #2364a3; --h6: #0d4480; --low: #1d1d1f; --high: #ffffff }\n"
	"@media (prefers-color-scheme: dark) {\n"
	":root { --paper: #141417; --panel: #1d1d21; --ink: #ececf1; --dim: #9b9ba5;\n"
	"  --line: #37373e; --good: #4cc38a; --warn: #f0a53c; --bad: #ff6f70;\n"
	"  --warnbg: #33260f; --badbg: #3a1a1c; --goodbg: #14301f;\n"
	"  --h0: #14263a; --h1: #183652; --h2: #1f4a72; --h3: #2b6398; --h4: #4684bf;\n"
	"  --h5: #76abdd; --h6: #b3d4f2; --low: #ececf1; --high: #101014 }\n"
	"}\n"
	"svg { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 12px "
	"}\n"
	"svg text { fill: var(--ink) } svg text.dim { fill: var(--dim) }\n"
	"svg text.title { font-size: 15px; font-weight: 600 } svg text.net { font-weight: 600 "
	"}\n"
	"svg text.small { font-size: 11px; paint-order: stroke; stroke: var(--panel);\n"
	"  stroke-width: 3px }\n"
	".cell { stroke: var(--paper) } .none { fill: var(--line); fill-opacity: .45 }\n"
	".self { fill: none } .ok { fill: var(--good); fill-opacity: .28 }\n"
	".part { fill: var(--warn); fill-opacity: .55 } .fail { fill: var(--bad) }\n"
	".h0 { fill: var(--h0) } .h1 { fill: var(--h1) } .h2 { fill: var(--h2) }\n"
	".h3 { fill: var(--h3) } .h4 { fill: var(--h4) } .h5 { fill: var(--h5) }\n"
	".h6 { fill: var(--h6) } svg text.low { fill: var(--low) }\n"
	"svg text.high { fill: var(--high) } svg text.sign { fill: #fff; font-weight: 700 }\n"
	"svg text.okay { fill: var(--good) }\n"
	".out { fill: none; stroke: var(--warn); stroke-width: 2.5 }\n"
	".box { fill: var(--panel); stroke: var(--line); stroke-width: 1.5 }\n"
	".box.warn { stroke: var(--warn); fill: var(--warnbg) }\n"
	".box.bad { stroke: var(--bad); fill: var(--badbg); stroke-width: 2 }\n"
	".wire { stroke: var(--dim); fill: none; stroke-width: 1.5 }\n"
	".wire.good { stroke: var(--good) } .wire.warn { stroke: var(--warn) }\n"
	".wire.bad { stroke: var(--bad) } .bus { stroke-width: 3.5; stroke-linecap: round }\n"
	".twice { stroke-dasharray: 5 5 }\n"
	".dot { fill: var(--dim); stroke: var(--paper); stroke-width: 1.5 }\n"
	".dot.good { fill: var(--good) } .dot.warn { fill: var(--warn) }\n"
	".dot.bad { fill: var(--bad) }\n"
	".arc { fill: none; stroke: var(--bad); stroke-width: 1.6; stroke-opacity: .85 }\n"
	".head { fill: var(--bad) }\n";

void picture_style(FILE *out)
{
	fputs(style, out);
}

void picture_begin(FILE *out, int x, int y, int width, int height, const char *title)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" x=\"%d\" y=\"%d\" "
		"width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
		"<text class=\"title\" x=\"6\" y=\"18\">%s</text>\n",
		x, y, width, height, width, height, title);
}
