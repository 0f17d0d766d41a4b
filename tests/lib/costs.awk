# costs.awk - the cost of a run of the tests: the slowest, the sum of each kind, and its budget.
#
# Input: lines "KIND NAME WALL CPU".  Variables: budgets, the file; loop, the CPU seconds that the
# calibration loop took in this run; part, "table" or "over".

BEGIN {
	scale = 1
	while ((getline line <budgets) > 0) {
		if (line ~ /^#/ || split(line, f, " ") < 2)
			continue
		if (f[1] == "loop")
			scale = loop / f[2]
		else
			budget[f[1]] = f[2]
	}
}

{
	kinds[$1] = 1
	wall[$1] += $3
	cpu[$1] += $4
	all += $4
	name[NR] = $2
	took[NR] = $3
	spent[NR] = $4
}

# by_name - print a row for each kind, sorted.
function by_name(   k) {
	for (k in kinds)
		printf "%-12s %8.1f %8.1f %8s\n", k, wall[k], cpu[k],
		       k in budget ? sprintf("%.1f", budget[k] * scale) : "-" | "LC_ALL=C sort"
	close("LC_ALL=C sort")
}

# slowest - print the ten rows that took longest, the longest first.
function slowest(   i, j, best) {
	for (i = 1; i <= 10 && i <= NR; i++) {
		best = 0
		for (j = 1; j <= NR; j++)
			if (!(j in done) && (!best || took[j] > took[best]))
				best = j
		done[best] = 1
		printf "%8.1f %8.1f  %s\n", took[best], spent[best], name[best]
	}
}

END {
	if (part == "over") {
		for (k in kinds)
			if (k in budget && cpu[k] > 1.5 * budget[k] * scale)
				printf "over its budget: %s took %.0f CPU seconds, and has %.0f\n",
				       k, cpu[k], budget[k] * scale
		exit
	}
	print "\n  wall s    CPU s  the slowest"
	slowest()
	print "\nkind           wall s    CPU s   budget"
	by_name()
	printf "%-12s %8s %8.1f\n", "all", "", all
}
