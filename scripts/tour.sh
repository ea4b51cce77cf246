#!/bin/sh
# A tour of hilt's command line, in a temporary workspace that is removed at the end.
set -eu

command -v hilt >/dev/null || {
    echo "tour: the command hilt is not on PATH; run make tour" >&2
    exit 1
}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM

# The tour ignores the user's settings and leaves no state behind.
for name in $(env | sed -n 's/^\(HILT_[A-Z_]*\)=.*/\1/p') WORKSPACE_ROOT; do
    unset "$name"
done
export HILT_CONFIG_DIR="$place/config" HILT_STATE_DIR="$place/state" HILT_RESIDENT=off
mkdir "$place/shop"
cd "$place/shop"

bold='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
fi

# chapter TITLE: announce the next step
chapter() {
    printf '\n%s# %s%s\n' "$dim" "$1" "$plain"
}

# show COMMAND: print the command as typed
show() {
    printf '%s$ %s%s\n' "$bold" "$1" "$plain"
}

# run COMMAND: run a command that must succeed
run() {
    show "$1"
    eval "$1" || {
        printf 'tour: this command failed: %s\n' "$1" >&2
        exit 1
    }
}

# refused COMMAND: run a command that hilt must refuse
refused() {
    show "$1"
    if eval "$1" 2>&1; then
        printf 'tour: this command should have been refused: %s\n' "$1" >&2
        exit 1
    fi
}

cat >price.py <<'EOF'
TAX = 19

def total(prices):
    return sum(prices) * (100 + TAX) / 100
EOF
cat >shop.py <<'EOF'
from price import total

print(total([30, 40]))
EOF
echo 'Prices are whole numbers.' >notes.txt
echo 'TOKEN=secret' >.env
cat >change.patch <<'EOF'
*** Begin Patch
*** Update File: shop.py
@@
-print(total([30, 40]))
+print(f"{total([30, 40]):.2f}")
*** Add File: test_price.py
+from price import total
+
+assert total([100]) == 120
*** Delete File: notes.txt
*** End Patch
EOF

chapter 'An agent sends a call as JSON and gets one line of JSON back.'
run "echo '{\"tool\": \"read_file\", \"args\": {\"path\": \"price.py\"}}' | hilt"

chapter 'The same call, made by hand.'
run 'hilt call read_file path=price.py'

chapter 'An edit: first a dry run, then the change.'
edit="hilt call edit_file path=price.py old_text='TAX = 19' new_text='TAX = 20'"
run "$edit \\
    dry_run=true"
run "$edit"

chapter 'Sensitive files cannot be read.'
refused 'hilt call read_file path=.env'

chapter 'One patch changes three files: all of them or none.'
run 'cat change.patch'
run 'hilt call apply_patch patch="$(cat change.patch)"'
run 'ls'

chapter 'One id undoes the whole patch.'
run 'hilt undo'
id=$(hilt undo list | sed -n '1s/ .*//p')
run "hilt undo restore $id"
run 'ls'

# without a working sandbox commands are refused, and the tour skips them
if hilt call run_shell command=true >/dev/null 2>&1; then
    chapter 'A command runs in a sandbox: it can write only in the workspace.'
    run "hilt call run_shell command='python3 shop.py; cat .env; echo x > /usr/x'"
    chapter 'Dangerous commands are refused, however they are wrapped.'
    refused "hilt call run_shell command='cat notes.txt | xargs env rm'"
    show "hilt explain '{\"tool\": \"Bash\", \"args\": {\"command\": \"sudo ls\"}}'"
    hilt explain '{"tool": "Bash", "args": {"command": "sudo ls"}}' | fold -s -w 78
fi

chapter 'Web tools reject private addresses, however they are spelled.'
refused 'hilt call web_fetch url=http://2130706433:8080/admin'

chapter 'Every call is recorded, each row chained to the one before.'
run 'hilt audit >audit.txt && cut -c 12-85 audit.txt'
run 'hilt audit verify'

printf '\n%sEnd of the tour. Its workspace and state are deleted. Next: README.md%s\n' "$dim" "$plain"
