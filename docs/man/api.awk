# api.awk - make ringup_api.3 from the comments in ringup.h; -v date="Month D, YYYY".
#
# The header is a sequence of blocks: a comment, then declarations up to an empty
# line.  Each block becomes a subsection named after its declaration: the code
# unchanged, then the comment.  The comment's paragraphs are filled; its tables (lines
# that start with space or tab, or with a word and a colon) are kept.

function text(s) {
	gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s)
	return s ~ /^[.']/ ? "\\&" s : s
}

function mode(m) { # "", "text" or "table"
	if (m == at) return
	if (at == "table") print ".Ed"
	if (m == "table") print ".Bd -literal -compact"
	at = m
}

function title(i, m, s) {
	for (i = 1; i <= codes; i++) {
		if (match(code[i], /^#define RINGUP_[A-Z]+S\(/))
			return substr(code[i], 9, RLENGTH - 9)
		if (match(code[i], /(struct|enum) ringup[a-z_]* {/))
			return substr(code[i], RSTART, RLENGTH - 2)
		if (match(code[i], /ringup_[a-z_]+\(/) && code[i] !~ /^#/) {
			m = substr(code[i], RSTART, RLENGTH - 1)
			if (index(s, m) == 0) s = s (s ? " , " : "") m
		}
	}
	return s
}

function block(i, name, line) {
	name = title()
	if (name == "" || !notes) { codes = notes = 0; return }
	print ".Ss " name "\n.Bd -literal"
	for (i = 1; i <= codes; i++) print text(code[i])
	print ".Ed\n.Pp"
	at = ""; gap = 0
	for (i = 1; i <= notes; i++) {
		line = note[i]
		sub(/^ringup_[a-z_, ]+ - /, "", line)
		if (line == "") { gap = 1; continue }
		if (line ~ /^[ \t]/ || line ~ /^(Ownership|Threads|Blocking):/ || (at == "table" && !gap)) {
			if (gap && at == "table") print ""; else if (gap) print ".Pp"
			mode("table")
		} else {
			if (gap) { mode(""); print ".Pp" }
			mode("text")
		}
		gap = 0
		line = text(line)
		if (at == "text") gsub(/[.]  /, ".\n", line) # mdoc: a sentence, a line
		print line
	}
	mode("")
	codes = notes = 0
}

BEGIN {
	print ".\\\" ringup_api.3 - made from ringup.h by api.awk; do not edit."
	print ".Dd " date "\n.Dt RINGUP_API 3\n.Os\n.Sh NAME\n.Nm ringup_api"
	print ".Nd collective communication for training jobs\n.Sh SYNOPSIS\n.In ringup.h\n.Pp\n.Li cc $(pkg\\-config \\-\\-cflags \\-\\-libs ringup) ..."
	print ".Sh DESCRIPTION"
}
/^\/\*.*\*\/$/ && !/SPDX|ringup\.h - / { notes = 0; sub(/^\/\* */, ""); sub(/ *\*\/$/, ""); note[++notes] = $0; next }
/^\/\*$/ { comment = 1; notes = 0; next }
/^\/\* / && !/\*\// { comment = 1; notes = 0; sub(/^\/\* */, ""); note[++notes] = $0; next }
comment && /^ \*\// { comment = 0; next }
comment { last = sub(/ *\*\/$/, ""); sub(/^ \* ?/, ""); note[++notes] = $0; if (last) comment = 0; next }
/^$/ { block(); next }
/^#(if|endif)|^extern "C"|^\/\*/ { next }
{ code[++codes] = $0 }
END {
	block()
	print ".Sh SEE ALSO\n.Xr ringup 1 ,\n.Xr ringup-env 1"
}
