# affected.awk - which test programs are linked, however indirectly, from an object that changed.
#
# Input: "changed FILE", "dep OBJECT FILE", "def OBJECT SYMBOL", "use OBJECT SYMBOL", "test PROGRAM".

$1 == "changed" { is_changed[$2] = 1 }
$1 == "dep" && ($3 in is_changed) { touched[$2] = 1 }
# What one file in many defines, such as main(), leads nowhere.
$1 == "def" { if ($2 ~ /^src\//) home[$3] = $2 }
$1 == "use" { uses[$2] = uses[$2] " " $3 }

# reaches OBJECT - is it, or anything that it needs, touched?
function reaches(object,   n, i, symbols) {
	if (object in touched)
		return 1
	if (object in seen)
		return 0
	seen[object] = 1
	n = split(uses[object], symbols, " ")
	for (i = 1; i <= n; i++)
		if ((symbols[i] in home) && reaches(home[symbols[i]]))
			return 1
	return 0
}

$1 == "test" { tests[++count] = $2 }

END {
	for (t = 1; t <= count; t++) {
		delete seen
		object = tests[t]
		sub(/replay_/, "fuzz_", object)
		if (reaches(object ".o"))
			print tests[t]
	}
}
