"""Facts about programs: which only read, which destroy, which start other programs, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilt import variables

# Programs that only read, whatever their arguments.
READERS = {
    "ls": "ls lists files",
    "cat": "cat reads files",
    "grep": "grep searches text",
    "egrep": "egrep searches text",
    "fgrep": "fgrep searches text",
    "head": "head reads files",
    "tail": "tail reads files",
    "wc": "wc counts",
    "stat": "stat reads file metadata",
    "pwd": "pwd prints the current folder",
    "echo": "echo prints its arguments",
    "which": "which finds programs",
    "whoami": "whoami prints the user",
    "diff": "diff compares files",
    "cmp": "cmp compares files",
    "cut": "cut reads text",
    "tr": "tr reads text",
    "basename": "basename prints a name",
    "dirname": "dirname prints a name",
    "realpath": "realpath prints a path",
    "du": "du measures files",
    "df": "df measures disks",
    "ps": "ps lists processes",
    "true": "true does nothing",
    "false": "false does nothing",
    "sleep": "sleep waits",
    "seq": "seq prints numbers",
}

# Shell builtins that change only the shell, which is about to end.
BUILTINS = frozenset(
    (
        *(":", "cd", "pushd", "popd", "dirs", "exit", "return", "break", "continue", "shift", "wait", "jobs"),
        *("type", "set", "times", "umask", "(("),
    )
)

DESTROYERS = {
    "rm": "rm deletes files",
    "rmdir": "rmdir deletes folders",
    "unlink": "unlink deletes a file",
    "dd": "dd writes raw data",
    "mkfs": "mkfs formats a disk",
    "mkswap": "mkswap formats a disk",
    "fdisk": "fdisk changes partitions",
    "sfdisk": "sfdisk changes partitions",
    "gdisk": "gdisk changes partitions",
    "cfdisk": "cfdisk changes partitions",
    "parted": "parted changes partitions",
    "wipefs": "wipefs erases a disk",
    "blkdiscard": "blkdiscard erases a disk",
    "shred": "shred destroys files",
    "srm": "srm destroys files",
    "wipe": "wipe destroys files",
    "fsck": "fsck changes a disk",
    "reboot": "reboot restarts the machine",
    "shutdown": "shutdown stops the machine",
    "halt": "halt stops the machine",
    "poweroff": "poweroff stops the machine",
    "kill": "kill ends processes",
    "killall": "killall ends processes",
    "pkill": "pkill ends processes",
    "skill": "skill ends processes",
    "rimraf": "rimraf deletes files",
    "del-cli": "del-cli deletes files",
    "sgdisk": "sgdisk changes partitions",
    "lvremove": "lvremove deletes a volume",
    "vgremove": "vgremove deletes volumes",
    "pvremove": "pvremove erases a disk",
    "lvreduce": "lvreduce shrinks a volume",
    "e2fsck": "e2fsck changes a disk",
    "debugfs": "debugfs changes a disk",
    "newfs": "newfs formats a disk",
    "userdel": "userdel deletes an account",
    "deluser": "deluser deletes an account",
    "groupdel": "groupdel deletes a group",
    "delgroup": "delgroup deletes a group",
    "chpasswd": "chpasswd changes passwords",
    "visudo": "visudo changes sudo privileges",
    "insmod": "insmod loads code into the kernel",
    "modprobe": "modprobe loads code into the kernel",
    "rmmod": "rmmod unloads code from the kernel",
    "kexec": "kexec starts another kernel",
    "dropdb": "dropdb deletes a database",
    "dropuser": "dropuser deletes a database user",
    "pg_resetwal": "pg_resetwal discards the write-ahead log of a database",
}

ELEVATORS = {
    "sudo": "sudo runs with elevated privileges",
    "su": "su runs as another user",
    "doas": "doas runs with elevated privileges",
    "pkexec": "pkexec runs with elevated privileges",
    "runuser": "runuser runs as another user",
    "sudoedit": "sudoedit edits with elevated privileges",
}

CHANGERS = {
    "cp": "cp copies files",
    "mv": "mv moves files",
    "mkdir": "mkdir creates folders",
    "touch": "touch creates files",
    "ln": "ln creates links",
    "chmod": "chmod changes permissions",
    "chown": "chown changes owners",
    "chgrp": "chgrp changes groups",
    "install": "install copies files",
    "tee": "tee writes files",
    "sed": "sed edits text",
    "tar": "tar packs and unpacks files",
    "zip": "zip packs files",
    "unzip": "unzip unpacks files",
    "curl": "curl accesses the network",
    "wget": "wget accesses the network",
    "ssh": "ssh connects to another machine",
    "scp": "scp connects to another machine",
    "rsync": "rsync copies files",
    "git": "git can change the repository",
    "alias": "alias redefines a name",
    "unalias": "unalias changes what a name means",
    "make": "make runs the commands of a Makefile",
    "npm": "npm runs scripts of packages",
    "truncate": "truncate changes the size of files",
    "shopt": "shopt changes how the shell parses commands",
}

# GNU programs, installed with the prefix g on systems that have another program of that name.
_GNU = (
    *(
        "rm",
        "rmdir",
        "unlink",
        "shred",
        "dd",
        "kill",
        "find",
        "xargs",
        "env",
        "timeout",
        "nice",
        "nohup",
        "stdbuf",
        "sort",
    ),
    *("mv", "cp", "ln", "install", "chmod", "chown", "chgrp", "truncate", "split", "tee", "date", "time", "chroot"),
)
GNU = {f"g{name}": name for name in _GNU}

SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "yash", "osh", "nu", "xonsh")
)

STANDARD_FOLDERS = frozenset(
    ("/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/usr/local/sbin")
)


class Options(NamedTuple):
    """The options of a program that take a value, and the number of operands before a command it starts."""

    short: str = ""  # letters whose value is the rest of the word or the next word
    long: tuple[str, ...] = ()
    operands: int = 0
    flags: str = ""  # letters without a value
    plain: tuple[str, ...] = ()  # long options without a value


# Dynamic loaders, which run the program in their arguments.
_LOADERS = (
    *("ld.so", "ld-linux.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-linux-armhf.so.3"),
    *("ld-linux-riscv64-lp64d.so.1", "ld64.so.2", "ld-musl-x86_64.so.1", "ld-musl-aarch64.so.1"),
)
# Programs that start the command that follows their own options and operands.
WRAPPERS: dict[str, Options] = {
    **dict.fromkeys(
        _LOADERS,
        Options(
            long=("library-path", "preload", "audit", "argv0", "inhibit-rpath"),
            plain=("list", "verify", "inhibit-cache"),
        ),
    ),
    "builtin": Options(),
    "command": Options(flags="p"),
    "exec": Options(short="a", flags="cl"),
    "coproc": Options(),
    "nohup": Options(),
    "setsid": Options(flags="cfw", plain=("ctty", "fork", "wait")),
    "time": Options(short="fo", long=("format", "output"), flags="apvq", plain=("append", "portability", "verbose")),
    "nice": Options(short="n", long=("adjustment",), flags="0123456789"),
    "ionice": Options(short="cnpPu", long=("class", "classdata"), flags="t", plain=("ignore",)),
    "chrt": Options(short="TPDp", operands=1, flags="abdfiormv", plain=("batch", "fifo", "idle", "other", "rr")),
    "taskset": Options(operands=1, flags="ac", plain=("all-tasks", "cpu-list")),
    "timeout": Options(
        short="ks",
        long=("kill-after", "signal"),
        operands=1,
        flags="vfp",
        plain=("foreground", "preserve-status", "verbose"),
    ),
    "stdbuf": Options(short="ioe", long=("input", "output", "error")),
    "busybox": Options(),
    "toybox": Options(),
    "coreutils": Options(),
    "chroot": Options(long=("groups", "userspec"), operands=1, plain=("skip-chdir",)),
    "unshare": Options(
        short="SGRw",
        long=("setuid", "setgid", "root", "wd", "map-user", "map-group", "map-users", "map-groups", "setgroups"),
        flags="imnpuUCTfrc",
        plain=("fork", "mount", "pid", "net", "user", "map-root-user", "ipc", "uts", "cgroup", "mount-proc"),
    ),
    "nsenter": Options(short="tSG", long=("target", "setuid", "setgid"), flags="aimnpuUCTrwFZ", plain=("all", "net")),
    "setarch": Options(flags="vhR3BFILSTXZ"),
    "linux32": Options(flags="R"),
    "linux64": Options(flags="R"),
    "fakeroot": Options(short="lisbfu", flags="uv"),
    "strace": Options(
        short="aeIoOpPsSuXEb",
        flags="fFcCdhiknqrtTvVwxyYzZ",
        plain=("follow-forks", "summary", "summary-only"),
    ),
    "ltrace": Options(short="aADeFlnopsuwx", flags="bcCfhiLrStTV"),
    "valgrind": Options(flags="qvdh"),
    "caffeinate": Options(short="tw", flags="disum"),
    "numactl": Options(short="iNmCpP", flags="sHl"),
    "prlimit": Options(),
    "xvfb-run": Options(short="efnpsw", long=("error-file", "auth-file", "server-num", "server-args"), flags="al"),
    "dbus-run-session": Options(long=("config-file", "dbus-daemon")),
    "systemd-run": Options(short="puEHMt", flags="dGPqrS", plain=("user", "scope", "pty", "wait")),
    "unbuffer": Options(flags="p"),
    "rlwrap": Options(),
    "setpriv": Options(),
    "firejail": Options(),
    "bwrap": Options(),
    "flock": Options(short="wEc", long=("timeout", "conflict-exit-code"), operands=1, flags="Fensuox"),
    "watch": Options(short="nqs", long=("interval", "equexit"), flags="bcdegptwxr"),
    "xargs": Options(
        short="adEILnPs",
        long=("arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"),
        flags="0oprtxie",
        plain=("null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty"),
    ),
    **dict.fromkeys(
        ("parallel", "sem"),
        Options(short="jIaNnLPSd", long=("jobs", "arg-file", "delimiter", "max-args", "sshlogin"), flags="0kqvtXmu"),
    ),
    "sudo": Options(
        short="ughpCrtTRDU",
        long=("user", "group", "host", "prompt", "close-from", "chdir", "chroot", "role", "type", "other-user"),
        flags="AbEeHiKklnPSsVv",
        plain=("preserve-env", "set-home", "login", "non-interactive", "stdin", "shell", "background", "askpass"),
    ),
    "doas": Options(short="aCu", flags="nsL"),
    "pkexec": Options(long=("user",), plain=("disable-internal-agent",)),
    "runuser": Options(short="ugGsw", long=("user", "group"), flags="lmPf"),
    "sshpass": Options(short="pPdf", flags="ev"),
    **dict.fromkeys(("torsocks", "torify", "eatmydata", "ccache", "distcc", "catchsegv", "dumb-init"), Options()),
    **dict.fromkeys(("proxychains", "proxychains4"), Options(short="f", flags="q")),
    "cpulimit": Options(short="lpe", long=("limit", "pid", "exe"), flags="zimbk"),
    **dict.fromkeys(("faketime", "setuidgid", "runcon"), Options(operands=1)),
    "choom": Options(short="np"),
    "chpst": Options(short="unbegmdofpcrlLe", flags="vP012"),
    "tini": Options(short="pe", flags="sgvw"),
    "entr": Options(flags="acdnprsz"),
    "watchexec": Options(short="wefijdsn", long=("watch", "exts", "filter", "ignore"), flags="crqv"),
    **dict.fromkeys(("cross-env", "cross-env-shell", "env-cmd", "concurrently", "heaptrack"), Options()),
    "gosu": Options(operands=1),
    "su-exec": Options(operands=1),
    "direnv": Options(operands=2),
    "env": Options(
        short="uCS",
        long=("unset", "chdir", "split-string", "argv0"),
        flags="0iv",
        plain=("ignore-environment", "null", "debug", "block-signal", "default-signal", "ignore-signal"),
    ),
}
# Wrappers that pass a word with spaces to a shell.
SHELL_WRAPPERS = frozenset(("entr", "watchexec", "concurrently", "cross-env-shell"))
# Wrappers through which a harmless command stays harmless.
TRANSPARENT = frozenset(
    (
        *("builtin", "command", "exec", "nohup", "setsid", "time", "nice", "ionice", "timeout", "stdbuf", "env"),
        *("busybox", "toybox", "xargs", "taskset", "chrt"),
    )
)

# Programs with a subcommand before the command they start: uv run X, bundle exec X.
RUNNERS: dict[str, tuple[str, ...]] = {
    "uv": ("run",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "conda": ("run",),
    "bundle": ("exec",),
    "npm": ("exec", "x"),
    "pnpm": ("exec",),
    "yarn": ("exec",),
    "mise": ("exec", "x"),
    "asdf": ("exec",),
    "rbenv": ("exec",),
    "pyenv": ("exec",),
    "opam": ("exec",),
    "stack": ("exec",),
    "cabal": ("exec",),
    "dotenv": ("run",),
    "chezmoi": ("execute-template",),
    "perf": ("stat", "record", "trace"),
    "rr": ("record",),
    "op": ("run",),
    "doppler": ("run",),
    "dotenvx": ("run",),
    "infisical": ("run",),
    "adb": ("shell",),
}


# Programs that run the value of an option as a command: its letters, its long names, and the letters of
# other options that take a value.
TEXT_OPTIONS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "script": ("c", ("command",), ""),
    "nix-shell": ("", ("run", "command"), ""),
    "nix": ("c", ("command",), ""),
    **dict.fromkeys(("xterm", "konsole", "alacritty", "urxvt", "rxvt"), ("e", (), "")),
    **dict.fromkeys(("tmux", "screen", "zellij"), ("", (), "")),
    "man": ("PH", ("pager", "html"), "CRLmMSserEp"),
    "split": ("", ("filter",), "abCln"),
    **dict.fromkeys(("bat", "batcat", "delta"), ("", ("pager",), "")),
    "fzf": ("", ("preview", "bind", "with-shell"), ""),
    **dict.fromkeys(("yt-dlp", "youtube-dl"), ("", ("exec", "exec-before-download", "netrc-cmd"), "")),
    "aria2c": ("", ("on-download-start", "on-download-complete", "on-download-stop", "on-download-error"), ""),
    "pandoc": ("F", ("filter", "pdf-engine"), ""),
    "tcpdump": ("z", (), "BcCDEFGijmMrsTvVwWyZ"),
    **dict.fromkeys(("nc", "ncat", "netcat"), ("ec", ("exec", "sh-exec", "lua-exec"), "gipsuwx")),
    "mosh": ("", ("ssh", "server"), "p"),
    "go": ("", ("exec", "toolexec", "vettool"), ""),
    "hyperfine": ("psc", ("prepare", "setup", "cleanup", "conclude"), ""),
    "sg": ("c", ("command",), ""),
    "capsh": ("c", (), ""),
    "ansible": ("a", ("args",), "imulCtfeM"),
    "nodemon": ("x", ("exec",), "ew"),
}
# Arguments that make a program run code, by how they start.
_COMPILES = ("-fplugin", "-wrapper", "-Xclang", "-load", "-specs=", "-B")
_TEX = ("-shell-escape", "--shell-escape", "-enable-write18", "--enable-write18")
CODE_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), _COMPILES),
    **dict.fromkeys(("tex", "latex", "pdflatex", "xelatex", "lualatex", "luatex", "latexmk"), _TEX),
    **dict.fromkeys(
        ("apt", "apt-get", "aptitude"), ("-oDPkg::", "-oAPT::Update::", "DPkg::", "APT::Update::", "Dpkg::Pre")
    ),
    **dict.fromkeys(("rpm", "rpmbuild"), ("-E", "--eval", "-D", "--define", "--pipe")),
    "wget": ("--use-a",),
    "mlr": ("--prepipe",),
    "exiftool": ("-config",),
    **dict.fromkeys(("rename", "prename", "perl-rename", "file-rename"), ("-e", "-E")),
    "openssl": ("-engine", "-provider-path"),
    "openvpn": ("--up", "--down", "--script-security", "--plugin", "--route-up"),
    "ssh-keygen": ("-D",),
    "ssh-add": ("-s",),
    "blender": ("--python-expr",),
    "gimp": ("-b", "--batch"),
}
# Arguments that make a program run code, by what they contain.
CODE_FRAGMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(CODE_OPTIONS, ()),
    "mlr": ("system(", "exec("),
    "wget": ("use_askpass", "useaskpass", "use-askpass"),
    "exiftool": ("system", "`", "qx"),
    **dict.fromkeys(("rename", "prename", "perl-rename", "file-rename"), ("system", "`", "qx", "unlink", "exec", "/e")),
}


_RISKY = (
    *("system", "exec", "popen", "shell", "remove", "unlink", "delete", "kill", "spawn", "eval", "rm(", "rm ", "rmdir"),
    *("!", "`", "load", "require", "run", "fork"),
)
_RISKY_PYTHON = (
    *(".system", "popen", "subprocess", "spawn", "fork(", "forkpty", "os.exec", "execv", "execl", "exec(", "eval("),
    *("compile(", "__import__", "importlib", "getattr(", "globals(", "locals(", "__builtins__", "__subclasses__"),
    *(
        "rmtree",
        "unlink",
        "os.remove",
        "rmdir",
        "removedirs",
        "from os ",
        "from shutil ",
        "import os as",
        "import posix",
    ),
    *("import shutil as", "pty", "ctypes", "cffi", "kill(", "killpg", "runpy", "marshal", "pickle", "b64decode"),
    *("fromhex", "codecs", "truncate(", "__dict__", "vars(", "breakpoint(", "code.interact", "timeit", "runctx"),
    *("sys.modules", "attrgetter", "methodcaller"),
)
_RISKY_PERL = (
    *("system", "exec", "`", "qx", "unlink", "rmdir", "rmtree", "fork", "kill", "eval", "|-", "-|", "open(", "open "),
    *("truncate", "pack(", "require", "syscall", "${", "&{", "&$", "->$", "do "),
)
_RISKY_RUBY = (
    *("system", "exec", "`", "%x", "spawn", "popen", "open3", "fork", "fileutils", "file.delete", "unlink", "rm_rf"),
    *("eval", "send(", "send ", "kernel", "kill", "rmdir", "pty", "fiddle", "truncate", "open("),
)
_RISKY_NODE = (
    *("child_process", "rmsync", "rmdir", "unlink", ".rm(", "process.kill", "eval(", "new function", "'vm'", '"vm"'),
    *("binding", "spawn", "exec(", "execsync", "execfile", "truncate", "deno.run", "deno.command", "deno.remove"),
    *("deno.kill", "bun.$", "worker(", "import(", "constructor", "[`", "['", '["'),
)
_RISKY_PHP = (
    *(
        "system",
        "exec",
        "passthru",
        "popen",
        "proc_open",
        "pcntl",
        "`",
        "unlink",
        "rmdir",
        "eval",
        "assert",
        "call_user",
    ),
    *("include", "require", "create_function", "preg_replace_callback", "posix_kill", "mail(", "ffi"),
)


class Interpreter(NamedTuple):
    """How an interpreter gets its program: options with code, options with another value, options that name a file."""

    code: tuple[str, ...]
    values: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # the program is a module or file named here
    quiet: bool = False  # without a program it does not read one from its input
    risky: tuple[str, ...] = _RISKY  # fragments of code that may delete, start programs, or run text as code


_PYTHON = Interpreter(("-c",), ("-W", "-X", "-Q", "--check-hash-based-pycs"), ("-m",), risky=_RISKY_PYTHON)
_NODE = Interpreter(
    ("-e", "--eval", "-p", "--print", "-pe"),
    ("-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--input-type"),
    risky=_RISKY_NODE,
)
INTERPRETERS: dict[str, Interpreter] = {
    "python": _PYTHON,
    "pypy": _PYTHON,
    "ipython": Interpreter(("-c",), (), ("-m",), risky=(*_RISKY_PYTHON, "!")),
    "perl": Interpreter(("-e", "-E"), ("-I", "-M", "-m"), risky=_RISKY_PERL),
    "ruby": Interpreter(("-e",), ("-I", "-r", "-C", "-E", "-x"), risky=_RISKY_RUBY),
    **dict.fromkeys(("node", "nodejs", "tsx", "ts-node"), _NODE),
    "php": Interpreter(("-r", "-B", "-R", "-E"), ("-c", "-d", "-z", "-S", "-t"), ("-f", "--file"), risky=_RISKY_PHP),
    "lua": Interpreter(("-e",), ("-l",)),
    "luajit": Interpreter(("-e",), ("-l",)),
    "Rscript": Interpreter(("-e",)),
    "R": Interpreter(("-e",), ("-g",), ("-f", "--file")),
    "julia": Interpreter(("-e", "--eval", "-E", "--print"), ("-C", "-J", "-t", "-p")),
    "osascript": Interpreter(("-e",), ("-l", "-s")),
    "pwsh": Interpreter(("-c", "-Command", "-EncodedCommand", "-e"), (), ("-File", "-f")),
    "powershell": Interpreter(("-c", "-Command", "-EncodedCommand"), (), ("-File",)),
    "deno": Interpreter(("eval",), quiet=True, risky=_RISKY_NODE),
    "bun": Interpreter(
        ("-e", "--eval", "-p", "--print"),
        (),
        ("run", "test", "install", "build", "x", "add", "create"),
        quiet=True,
        risky=_RISKY_NODE,
    ),
    "tclsh": Interpreter(()),
    "wish": Interpreter(()),
    "expect": Interpreter(("-c",), (), ("-f",)),
    "guile": Interpreter(("-c",), ("-L", "-l"), ("-s",)),
    "groovy": Interpreter(("-e",)),
    "scala": Interpreter(("-e",)),
    "elixir": Interpreter(("-e", "--eval"), ("-r", "-S")),
    "erl": Interpreter(("-eval",), quiet=True),
    "irb": Interpreter(("-e",)),
    "ghci": Interpreter(("-e",)),
    "jshell": Interpreter(()),
    "clojure": Interpreter(("-e", "--eval"), (), ("-M", "-m")),
    "sbcl": Interpreter(("--eval",), ("--load",)),
    "emacs": Interpreter(("--eval", "-eval", "--execute"), ("-l", "--load", "-f", "--funcall"), quiet=True),
    "lldb": Interpreter(("-o", "-O", "--one-line", "--one-line-before-file"), ("-s", "--source"), quiet=True),
    "jrunscript": Interpreter(("-e",), ("-cp", "-l"), ("-f",)),
    **dict.fromkeys(
        ("ghc", "ocaml", "racket", "raku", "swift", "fennel", "janet", "iex"), Interpreter(("-e",), quiet=True)
    ),
    "gdb": Interpreter(("-ex", "--ex", "-eval-command", "--eval-command", "-iex"), ("-x",), quiet=True),
}

GIT_READERS = frozenset(("status", "log", "diff", "show", "branch"))
GIT_OPTIONS = Options(
    short="Cc",
    long=("git-dir", "work-tree", "namespace", "super-prefix", "config-env", "attr-source"),
    flags="pPhv",
    plain=(
        *("no-pager", "paginate", "bare", "no-replace-objects", "literal-pathspecs", "glob-pathspecs", "version"),
        *("noglob-pathspecs", "icase-pathspecs", "no-optional-locks", "help", "html-path", "man-path", "info-path"),
    ),
)
# Settings of git whose value git runs, or that lead to such a value.
GIT_RUNS = (
    *("alias.", "core.pager", "core.editor", "core.sshcommand", "core.fsmonitor", "core.hookspath", "core.gitproxy"),
    *(
        "core.askpass",
        "core.alternaterefscommand",
        "credential.",
        "diff.external",
        "filter.",
        "gpg.",
        "pager.",
        "hook.",
    ),
    *("sequence.editor", "include.", "includeif.", "init.templatedir", "browser.", "man.", "sendemail.", "web.browser"),
    *("interactive.difffilter", "protocol.", "instaweb.", "imap.tunnel", "uploadpack.", "receive.", "url.", "guitool."),
)
GIT_RUNS_ENDS = (
    *(".command", ".textconv", ".cmd", ".driver", ".helper", ".program", ".vcs", ".uploadpack", ".receivepack"),
    *(".proxy", ".update", ".path", ".tool", ".sshcommand", ".process", ".clean", ".smudge"),
)

# Subcommands of package managers that remove packages.
REMOVALS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("apt", "apt-get", "aptitude", "nala"),
        frozenset(("remove", "purge", "autoremove", "autopurge")),
    ),
    **dict.fromkeys(("dnf", "yum", "microdnf"), frozenset(("remove", "erase", "autoremove", "rm"))),
    "zypper": frozenset(("remove", "rm")),
    "apk": frozenset(("del",)),
    "brew": frozenset(("uninstall", "remove", "rm", "autoremove", "zap")),
    "port": frozenset(("uninstall",)),
    "snap": frozenset(("remove",)),
    "flatpak": frozenset(("uninstall", "remove")),
    **dict.fromkeys(("pip", "pip3", "pipx"), frozenset(("uninstall", "uninstall-all"))),
    "uv": frozenset(("remove", "uninstall")),
    "poetry": frozenset(("remove",)),
    "pdm": frozenset(("remove",)),
    **dict.fromkeys(("conda", "mamba", "micromamba"), frozenset(("remove", "uninstall"))),
    "npm": frozenset(("uninstall", "remove", "rm", "un", "unlink", "r", "prune", "unpublish")),
    "pnpm": frozenset(("remove", "rm", "uninstall", "un", "prune")),
    "yarn": frozenset(("remove",)),
    "bun": frozenset(("remove", "rm")),
    "cargo": frozenset(("uninstall", "remove", "rm")),
    "gem": frozenset(("uninstall",)),
    "composer": frozenset(("remove",)),
    "nix-env": frozenset(("uninstall",)),
    "guix": frozenset(("remove",)),
}
PACKAGE_GROUPS = frozenset(("pip", "global", "env", "tool", "cask", "package"))
PACKAGE_OPTIONS = Options(
    short="Cw", long=("prefix", "cwd", "dir", "filter", "workspace", "registry", "root", "project")
)
REMOVAL_FLAGS: dict[str, tuple[str, ...]] = {
    "pacman": ("-R", "--remove"),
    "yay": ("-R", "--remove"),
    "paru": ("-R", "--remove"),
    "dpkg": ("-r", "-P", "--remove", "--purge"),
    "rpm": ("-e", "--erase"),
    "nix-env": ("-e", "--uninstall"),
}
# Arguments that make a program stop a machine or its services, or change what it starts.
_SERVICE_STOPS = frozenset(
    (
        *("poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "emergency", "rescue", "kill", "stop", "mask"),
        *("disable", "enable", "isolate", "edit", "link", "revert", "set-default", "set-environment", "terminate-user"),
        *("import-environment", "terminate-session", "kill-session", "kill-user"),
    )
)
_LAUNCHES = (
    "load",
    "unload",
    "bootstrap",
    "bootout",
    "submit",
    "remove",
    "kill",
    "setenv",
    "stop",
    "disable",
    "enable",
)
STOPS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("systemctl", "loginctl"), _SERVICE_STOPS),
    **dict.fromkeys(("init", "telinit"), frozenset(("0", "6"))),
    **dict.fromkeys(("service", "rc-service", "supervisorctl"), frozenset(("stop", "shutdown", "remove"))),
    "launchctl": frozenset(_LAUNCHES),
    "fuser": frozenset(),
    "journalctl": frozenset(),
}
# Options that make a program destroy data permanently: letters, long names, and letters that take a value.
LOSSES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "iptables": ("FXD", ("flush", "delete-chain", "delete"), "AIjpsdioPtm"),
    "ip6tables": ("FXD", ("flush", "delete-chain", "delete"), "AIjpsdioPtm"),
    "pg_restore": ("c", ("clean",), "dfFhIjLnNPpSTtU"),
    "gpg": ("", ("delete-keys", "delete-secret-keys", "delete-secret-and-public-keys"), "o"),
    "mdadm": ("S", ("zero-superblock", "stop", "remove"), ""),
    "hdparm": ("", ("security-erase", "trim-sector-ranges", "write-sector"), ""),
    "badblocks": ("wn", (), "bcdeiopt"),
}

# Variables that hold the options of a program, with that program.
OPTIONS_OF = {
    "TAR_OPTIONS": "tar",
    "LESS": "less",
    "MANOPT": "man",
    "MAKEFLAGS": "make",
    "GNUMAKEFLAGS": "make",
    "ZIPOPT": "zip",
    "ZIP": "zip",
    "UNZIP": "unzip",
    "FZF_DEFAULT_OPTS": "fzf",
}
# Variables that change which programs or files others find.
CHANGES_LOOKUP_STARTS = ("LD_", "DYLD_", "PYTHON", "GIT_", "NPM_CONFIG_", "npm_")
CHANGES_LOOKUP = frozenset(
    (
        *OPTIONS_OF,
        *variables.OPTIONS,
        *variables.FOLDERS,
        *("SHELLOPTS", "BASHOPTS", "EXECIGNORE", "GLOBIGNORE", "LOCPATH", "NLSPATH", "TERMINFO"),
        *("HOME", "XDG_CONFIG_HOME", "HOSTALIASES", "GREP_OPTIONS"),
        *("KUBECONFIG", "DOCKER_HOST", "INPUTRC", "MALLOC_CONF"),
    )
)


def positionals(words: Sequence[str | None], options: Options = Options()) -> list[str | None]:  # noqa: B008
    """Return the operands among arguments: neither options nor their values."""
    operands: list[str | None] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            return [*operands, *words[index:]]
        if word is None or not word.startswith("-") or word == "-":
            operands.append(word)
        elif word.startswith("--"):
            index += "=" not in word and word[2:] in options.long
        else:
            index += takes_next(word, options.short)
    return operands


def takes_next(word: str, short: str) -> bool:
    """Whether the value of a short option of this word is the next word."""
    for place, letter in enumerate(word[1:], 1):
        if letter in short:
            return place == len(word) - 1
    return False


def has_flag(words: Sequence[str | None], letters: str, *names: str, values: str = "") -> bool:
    """Whether arguments contain one of these short or long options; long ones may be abbreviated, as GNU allows."""
    for word in words:
        if word == "--":
            return False
        if word is None or not word.startswith("-") or word == "-":
            continue
        if word.startswith("--"):
            name = word[2:].partition("=")[0]
            if name and any(full.startswith(name) for full in names):
                return True
            continue
        for letter in word[1:]:
            if letter in letters:
                return True
            if letter in values:
                break
    return False


def option_values(words: Sequence[str | None], letters: str, *names: str, stops: str = "") -> list[str | None]:
    """Return the values of these options, attached or in the next word."""
    values: list[str | None] = []
    for index, word in enumerate(words):
        if word == "--":
            break
        if word is None or not word.startswith("-"):
            continue
        following = words[index + 1] if index + 1 < len(words) else None
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name and any(full.startswith(name) for full in names):
                values.append(value if equals else following)
            continue
        for place, letter in enumerate(word[1:], 1):
            if letter in letters:
                values.append(word[place + 1 :] or following)
            if letter in letters or letter in stops:
                break
    return values


def long_values(values: Sequence[str | None], name: str, *, exact: bool = False) -> list[str | None]:
    """Return the values of one long option, abbreviated or not."""
    texts: list[str | None] = []
    for index, value in enumerate(values):
        if value == "--":
            break
        if value is None or not value.startswith("--"):
            continue
        option, equals, text = value[2:].partition("=")
        if option == name or (not exact and len(option) > 1 and name.startswith(option)):
            texts.append(text if equals else values[index + 1] if index + 1 < len(values) else None)
    return texts


def command_at(values: Sequence[str | None], options: Options, *, assignments: bool = False) -> tuple[int, bool]:
    """Return the index of the command that a wrapper starts, and whether every option before it is known."""
    is_known = True
    operands = options.operands
    index = 0
    while index < len(values):
        value = values[index]
        if value == "--":
            index += 1
            while operands and index < len(values):
                operands -= 1
                index += 1
            break
        if value is not None and value.startswith("-") and (value != "-" or assignments):
            index += 1
            if value.startswith("--"):
                name, equals, _ = value[2:].partition("=")
                if any(full.startswith(name) for full in options.long):
                    index += not equals
                elif not any(full.startswith(name) for full in options.plain):
                    is_known = False
            elif value != "-":
                index += takes_next(value, options.short)
                known_letters = options.short + options.flags
                first = next((place for place, letter in enumerate(value[1:]) if letter in options.short), len(value))
                is_known = is_known and all(letter in known_letters for letter in value[1 : first + 1])
            continue
        if (
            assignments
            and value is not None
            and value.partition("=")[0].replace("%", "").isidentifier()
            and "=" in value
        ):
            index += 1
            continue
        if not operands:
            break
        operands -= 1
        index += 1
    return min(index, len(values)), is_known
