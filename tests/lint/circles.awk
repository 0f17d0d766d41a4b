# circles.awk - which units need each other in a circle, given edges FOLDER FROM TO on standard input.

# -v modules=FILE: its lines FOLDER UNIT UNIT... : REASON are modules, each of which counts as one unit.
# A circle is printed as a line with its units, and behind it the edges that make it.  With -v check=1
# the modules are looked at instead: units that no circle joins within their module, missing reasons.

function reach(from, at,   i, n, next_of) {
  n = split(out[at], next_of, " ")
  for (i = 1; i <= n; i++)
    if (!((from, next_of[i]) in reached)) { reached[from, next_of[i]] = 1; reach(from, next_of[i]) }
}

# The name of a unit; of one in a module, its first unit's, but when modules are looked at.
function name(folder, unit) {
  return !check && (folder, unit) in module ? module[folder, unit] : folder "/" unit
}

function are_one(folder, a, b) {
  return (folder, a) in module && (folder, b) in module && module[folder, a] == module[folder, b]
}

function read_modules(   line, n, w, i) {
  while ((getline line < modules) > 0) {
    n = split(line, w, " ")
    if (n < 2 || line ~ /^#/) continue
    reason[w[1] "/" w[2]] = line ~ / : ./
    for (i = 2; i <= n && w[i] != ":"; i++) module[w[1], w[i]] = w[1] "/" w[2]
  }
}

function print_circle(u,   v, list, n, of, i, j, why) {
  list = u
  for (v in units) if (((u, v) in reached) && ((v, u) in reached)) { done[v] = 1; if (v != u) list = list "," v }
  n = split(list, of, ",")
  for (i = 1; i <= n; i++) for (j = 1; j <= n; j++) why = why said[of[i], of[j]]
  print list why
}

function check_modules(   m, k, p, first) {
  for (m in reason) if (!reason[m]) print "no reason: " m
  for (k in module) {
    split(k, p, SUBSEP)
    first = module[k]
    if (!((first, p[1] "/" p[2]) in reached) || !((p[1] "/" p[2], first) in reached))
      print "in no circle of its module: " p[1] "/" p[2]
  }
}

BEGIN { read_modules() }

{
  from = name($1, $2); to = name($1, $3)
  if (from == to || (check && !are_one($1, $2, $3))) next
  if (!((from, to) in said)) out[from] = out[from] to " "
  said[from, to] = said[from, to] "\n  " $2 " needs " $3
  units[from] = units[to] = 1
}

END {
  for (u in units) reach(u, u)
  if (check) check_modules()
  else for (u in units) if (((u, u) in reached) && !(u in done)) print_circle(u)
}
