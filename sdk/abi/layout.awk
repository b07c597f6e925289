# Writes the rest of a C program from the public headers (its input), which prints what of them is fixed: a line for each struct,
# member and enumerator: `coord_slice size 16`, `coord_slice.data 0 8` (offset, size), `COORD_OK = 0`. The headers are written so
# that this can read them: `typedef struct NAME {` … `} NAME;` and `enum {` … `};`, each beginning a line.

function declare(text,    count, names, i, name) {
    if (match(text, /\(\*[a-z_0-9]+\)/)) { # a function
        show(substr(text, RSTART + 2, RLENGTH - 3))
        return
    }
    count = split(text, names, ",")
    for (i = 1; i <= count; i++) {
        name = names[i]
        sub(/\[.*/, "", name)
        sub(/[ \t]+$/, "", name)
        sub(/.*[^a-z_0-9A-Z]/, "", name)
        if (name != "")
            show(name)
    }
}

function show(member) {
    printf "    printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof((%s *)0)->%s);\n", struct_name, member, struct_name, member, struct_name, member
}

function finish(    count, parts, i) {
    printf "    printf(\"%s size %%zu\\n\", sizeof(%s));\n", struct_name, struct_name
    count = split(body, parts, ";")
    for (i = 1; i < count; i++)
        declare(parts[i])
    inside = 0
}

function enumerate(text,    count, names, i) {
    count = split(text, names, ",")
    for (i = 1; i <= count; i++)
        if (match(names[i], /COORD_[A-Z_0-9]+/))
            printf "    printf(\"%s = %%lld\\n\", (long long)%s);\n", substr(names[i], RSTART, RLENGTH), substr(names[i], RSTART, RLENGTH)
}

BEGIN {
    print "int main(void)\n{\n    printf(\"abi %d.%d\\n\", COORD_ABI_MAJOR, COORD_ABI_MINOR);"
}

{
    line = $0
    while (comment || index(line, "/*")) { # comments go, also those of several lines
        if (comment) {
            at = index(line, "*/")
            if (!at) { line = ""; break }
            line = substr(line, at + 2)
            comment = 0
        } else {
            at = index(line, "/*")
            end = index(substr(line, at + 2), "*/")
            if (end)
                line = substr(line, 1, at - 1) " " substr(line, at + 2 + end + 1)
            else {
                line = substr(line, 1, at - 1)
                comment = 1
                break
            }
        }
    }
    if (!inside && line ~ /^typedef struct coord_[a-z_0-9]+ \{/) {
        struct_name = line
        sub(/^typedef struct /, "", struct_name)
        sub(/ .*/, "", struct_name)
        body = ""
        inside = 1
        next
    }
    if (inside && line ~ /^\}/) { finish(); next }
    if (line ~ /^enum \{/) {
        values = line
        sub(/^enum \{/, "", values)
        listing = 1
    } else if (listing)
        values = values " " line
    if (listing && index(values, "}")) {
        enumerate(values)
        listing = 0
    }
    if (inside)
        body = body " " line
}

END { print "    return 0;\n}" }
