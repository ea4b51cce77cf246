#!/bin/sh
# What must be installed before pip can install the rest.
#   system.sh programs PROGRAM:PACKAGE...   programs, each with its Debian package; for a library, one of its files
#   system.sh venv DIRECTORY                a virtual environment with pip; $PYTHON names the Python to use
set -eu

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# As root on Debian, install the packages; elsewhere print what is missing and how to get it.
require() {
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "hilt needs these, under whatever name your system has them: $*"
    fi
    if [ "$(id -u)" != 0 ]; then
        fail "hilt needs system packages that are not installed. Run this, then try again:" \
            "    sudo apt-get update && sudo apt-get install --no-install-recommends $*"
    fi
    echo "Installing system packages: $*"
    case " $* " in
    *" postgresql "*)
        # the tests start servers of their own; dpkg keeps a file that is already there
        mkdir -p /etc/postgresql-common
        [ -e /etc/postgresql-common/createcluster.conf ] ||
            echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
        ;;
    esac
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null
}

# Print the interpreter itself, not a shim or virtual environment.
find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11) or print(sys._base_executable))' 2>/dev/null &&
            return
    done
    return 1
}

# Whether there is a program, a file by its path, or a description of a library for GObject introspection.
is_there() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *.typelib) ls /usr/lib/girepository-1.0/"$1" /usr/lib/*/girepository-1.0/"$1" 2>/dev/null | grep -q . ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

programs() {
    missing=
    for pair in "$@"; do
        is_there "${pair%%:*}" || missing="$missing ${pair#*:}"
    done
    # shellcheck disable=SC2086  # a list of package names
    [ -z "$missing" ] || require $missing
}

venv() {
    find_python >/dev/null || [ -n "${PYTHON:-}" ] || command -v python3 >/dev/null 2>&1 || require python3
    python=$(find_python) || fail \
        "hilt needs Python 3.11 or newer; ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>&1 || true)." \
        "Install a newer one, or name it: make setup PYTHON=/path/to/python3"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        require "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    "$python" -m venv --clear "$1"
}

"$@"
