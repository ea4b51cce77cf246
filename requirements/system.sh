#!/bin/sh
# Install or check what pip cannot install.
#   system.sh programs [python] PROGRAM:PACKAGE...   check Python and programs, given with their Debian packages;
#                                                    for a library, give one of its files
#   system.sh venv DIRECTORY                         create a virtual environment with pip
# $PYTHON is the Python to use. As root on Debian, missing packages are installed. Otherwise one message lists them all,
# and the setup continues unless Python is missing.
set -eu

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# Install Debian packages as root.
install() {
    echo "Installing system packages: $*"
    case " $* " in
    *" postgresql "*)
        # the tests start their own servers; dpkg keeps an existing file
        mkdir -p /etc/postgresql-common
        [ -e /etc/postgresql-common/createcluster.conf ] ||
            echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
        ;;
    esac
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null
}

# Print how to install these packages.
advise() {
    if command -v apt-get >/dev/null 2>&1; then
        echo "    sudo apt-get update && sudo apt-get install --no-install-recommends $*"
    else
        echo "    $* (Debian package names)"
    fi
}

# Print the interpreter itself, not a shim or virtual environment.
find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11) or print(sys._base_executable))' 2>/dev/null &&
            return
    done
    return 1
}

has_ensurepip() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

# Print the Debian packages that Python lacks to create a virtual environment.
missing_python() {
    if python=$(find_python); then
        has_ensurepip "$python" || command -v uv >/dev/null 2>&1 ||
            "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
    elif [ -n "${PYTHON:-}" ] || command -v python3 >/dev/null 2>&1; then
        fail "hilt needs Python 3.11 or newer; ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>&1 || true)." \
            "Install a newer one, or pass its path: make run PYTHON=/path/to/python3"
    else
        echo python3 python3-venv
    fi
}

# Whether a program, a file (by its path), a shared library or a GObject introspection typelib is installed.
is_installed() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *.typelib) ls /usr/lib/girepository-1.0/"$1" /usr/lib/*/girepository-1.0/"$1" 2>/dev/null | grep -q . ;;
    *.so.*) ls /usr/lib/"$1" /usr/lib/*/"$1" 2>/dev/null | grep -q . ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

programs() {
    needed=
    useful=
    if [ "${1:-}" = python ]; then
        needed=$(missing_python)
        shift
    fi
    for pair in "$@"; do
        is_installed "${pair%%:*}" || useful="$useful ${pair#*:}"
    done
    [ -n "$needed$useful" ] || return 0
    # shellcheck disable=SC2086  # lists of package names
    set -- $needed $useful
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        install "$@"
    elif [ -n "$needed" ]; then
        fail "hilt needs Python 3.11 or newer with venv. To install it and everything else that is missing:" \
            "$(advise "$@")"
    else
        printf '%s\n' "Not installed:$useful. Features and tests that need them are skipped." \
            "To install all of them:" "$(advise "$@")" >&2
    fi
}

venv() {
    python=$(find_python)
    if has_ensurepip "$python"; then
        "$python" -m venv --clear "$1"
    else
        rm -rf "$1"
        uv venv --quiet --seed --python "$python" "$1"
    fi
}

"$@"
