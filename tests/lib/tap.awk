# tap.awk - count the results in the output of one test program: TAP in, lines for tests/run out.
#
# Variables: status, the program's exit status; limit, the seconds that it had.
# Prints "count PASSED FAILED SKIPPED", then a line "fail NAME: WHY" for each failure and
# "skip NAME: REASON" for each skip.

# tell - end the failure that is being read.
function tell() {
	if (name != "")
		lines[++n] = "fail " substr(name (why != "" ? ": " why : ""), 1, 240)
	name = why = ""
	sure = 0
}

# add NAME WHY - a failure that no test point tells of.
function add(what, reason) {
	tell()
	failed++
	lines[++n] = "fail " what ": " reason
}

/^(not )?ok([ \t]|$)/ {
	tell()
	points++
	text = $0
	sub(/^(not )?ok[ \t]*[0-9]*[ \t]*(- )?/, "", text)
	if (match(text, /# *[Ss][Kk][Ii][Pp]/)) {
		skipped++
		reason = substr(text, RSTART + RLENGTH)
		sub(/^[^ \t]*[ \t]*/, "", reason)
		text = substr(text, 1, RSTART - 1)
		sub(/ *$/, "", text)
		if (reason == "")
			add(text, "a skip without a reason")
		else
			lines[++n] = "skip " text ": " reason
	} else if (/^ok/ || text ~ /# *[Tt][Oo][Dd][Oo]/) {
		passed++
	} else {
		failed++
		name = text
	}
	next
}

/^1\.\.[0-9]+/ {
	tell()
	plan = substr($1, 4) + 0
	planned = 1
	if (plan == 0) {
		skipped++
		reason = $0
		sub(/^1\.\.0 *(# *[Ss][Kk][Ii][Pp][^ ]* *)?/, "", reason)
		lines[++n] = "skip all: " (reason != "" ? reason : "no test")
	}
	next
}

/^Bail out!/ { add("bailed out", $0) }

# The command that failed says more than the line that it stands on.
name != "" && /^#.* failed( with status [0-9]+)?$/ && !sure { sure = 1; why = $0; sub(/^# */, "", why); next }
name != "" && /^#/ && why == "" && !/^# *(\(|in test file)/ { why = $0; sub(/^# */, "", why) }

END {
	tell()
	if (status == 124 || status == 137)
		add("no end", "it was ended after " limit " seconds")
	else if (status > 128 && status < 160)
		add("died", "of signal " status - 128)
	else if (!planned)
		add("no plan", "it reported " points + 0 " results and then ended with status " status)
	else if (plan > 0 && points != plan)
		add("wrong plan", "it reported " points + 0 " of " plan " results and ended with status " status)
	else if (status && !failed)
		add("status", "it reported no failure and ended with status " status)
	print "count", passed + 0, failed + 0, skipped + 0
	for (i = 1; i <= n; i++)
		print lines[i]
}
