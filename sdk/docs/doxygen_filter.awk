# Marks the plain comments of a header as doxygen wants them, line for line:
#   the first one is about the file;
#   one behind code on its line is about that;
#   one in front of a declaration is about all declarations up to the next comment or blank line;
#   the first one of such a paragraph is also about those that have one behind them.

# A declaration is held until it is whole.
function hold(line) {
    if (line ~ / \/\* /) {
        has_own = 1
        sub(/\/\* /, "/**< ", line)
    }
    held = held line "\n"
    if (line ~ /[;{]/ || (held ~ /^#/ && line !~ /\\$/))
        give()
}

function give() {
    text = has_own ? first : shared
    if (text != "" && !fresh)
        printf "/**%s */ ", text
    printf "%s", held
    held = ""
    fresh = 0
}

# Takes a line of the shared comment.
function share(line) {
    sub(/ *\*\/.*/, "", line)
    sub(/^ *\*? ?/, "", line)
    shared = shared " " line
}

held != "" { hold($0); next }

in_comment {
    if (outer)
        share($0)
    in_comment = !/\*\//
    if (outer && !in_comment && first == "")
        first = shared
    print
    next
}

/^$/ {
    shared = ""
    first = ""
}

/^ *\/\*/ {
    outer = /^\/\*/ && comments > 0
    sub(/\/\*/, ++comments == 1 ? "/** @file " : "/**")
    in_comment = !/\*\//
    if (outer) {
        shared = ""
        fresh = 1
        share(substr($0, 4))
        if (!in_comment && first == "")
            first = shared
    }
    print
    next
}

/^(#define|[a-z]|COORD_API)/ {
    has_own = 0
    hold($0)
    next
}

/[^ ].* \/\* / { sub(/\/\* /, "/**< ") }

{ print }

END { printf "%s", held }
