# numbers.awk - which numbers of a summary do not stand in the pages that it names for them.

# awk -v folder=DIR -f numbers.awk SUMMARY: links lead from DIR to bench/PAGE.md.  Of the parts "Summary" and "Where
# peers win" each number has to stand in a page of its paragraph, its list item or its row of a table; below a table's
# header that links to pages, a cell's in the page of its column.  Each one that does not is printed with its place.

# Collect in `into` the numbers of a text, without the commas between thousands.
function numbers(text, into, page) {
  while (match(text, /[0-9]([0-9.,]*[0-9])?/)) {
    token = substr(text, RSTART, RLENGTH)
    gsub(/,/, "", token)
    into[page, token] = 1
    text = substr(text, RSTART + RLENGTH)
  }
}

function read_page(page,   line) {
  if (page in read) return
  read[page] = 1
  while ((getline line < (folder "/" page)) > 0) { numbers(line, stands, page); lines[page]++ }
  if (!lines[page]) print "no such page: " page
}

# The pages that a text links to, read; with a space behind each.
function pages_of(text,   found, page) {
  while (match(text, /\(bench\/[a-z0-9-]+\.md\)/)) {
    page = substr(text, RSTART + 1, RLENGTH - 2)
    read_page(page)
    found = found page " "
    text = substr(text, RSTART + RLENGTH)
  }
  return found
}

function check(text, pages,   mine, k, part, n, of, i, ok) {
  gsub(/\(bench\/[a-z0-9-]+\.md\)/, "", text)
  numbers(text, mine, "")
  n = split(pages, of, " ")
  for (k in mine) {
    split(k, part, SUBSEP)
    ok = 0
    for (i = 1; i <= n; i++) if ((of[i], part[2]) in stands) ok = 1
    if (!ok) print part[2] " is not in " (n ? pages : "any page: none is named ") "(" substr(text, 1, 40) "...)"
  }
}

function row(text,   cell, n, i) {
  n = split(text, cell, "|")
  if (!columns) { check(text, pages_of(text)); return }
  for (i = 2; i < n; i++) check(cell[i], i in column ? column[i] : columns)
}

# The first row of a table: the pages of its columns.
function header(text,   cell, n, i, page) {
  split("", column)
  columns = pages_of(text)
  n = split(text, cell, "|")
  for (i = 2; i < n; i++) if ((page = pages_of(cell[i])) != "") column[i] = page
}

function flush() { if (block != "") check(block, pages_of(block)); block = "" }

/^## / { flush(); on = /^## (Summary|Where peers win)/; parts += on; next }
!on { next }
/^\|/ { flush(); if (!in_table) header($0); else if (!/^\|[-:|]+$/) row($0); in_table = 1; next }
{ in_table = 0 }
/^$/ || /^- / { flush() }
{ block = block " " $0 }

END { flush(); if (parts != 2) print "its two parts are not there" }
