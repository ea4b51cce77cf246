#!/bin/sh
# in_memory.sh PROGRAM ...: run a program with /tmp in memory, if this user may mount a tmpfs and there is enough memory.
# Tests sync thousands of small files; on a disk they would spend most of their time waiting for it.
set -eu

if [ "${1:-}" = --mounted ]; then # in a new mount namespace
	shift
	folder=$PWD
	exec 3< "$folder"
	mount -t tmpfs -o mode=1777,size=50% tmpfs /tmp
	case $folder/ in
	/tmp/*) # show the working folder in the new /tmp, by its descriptor
		mkdir -p "$folder"
		mount --no-canonicalize --bind /proc/self/fd/3 "$folder" 2> /dev/null || umount /tmp
		;;
	esac
	exec 3<&-
	cd "$folder"
	[ -x "$1" ] || umount /tmp # the program is below the old /tmp
	exec "$@"
fi

available=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo 2> /dev/null || echo 0)
if [ "${available:-0}" -ge 6 ] && unshare --mount true 2> /dev/null; then
	exec unshare --mount sh "$0" --mounted "$@"
fi
exec "$@"
