"""Facts about programs: which only read, which destroy, which start other programs, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilt import variables


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def _facts(text: str) -> dict[str, str]:
    """Return sentences by their first word, the program."""
    return {sentence.partition(" ")[0]: sentence for sentence in text.split("; ")}


def rows(text: str) -> dict[str, str]:
    """Return what a row says after its colon for each program before it; the rest of a long row is indented."""
    facts: dict[str, str] = {}
    first = text.lstrip("\n")
    margin = first[: len(first) - len(first.lstrip())]
    for row in text.strip().replace(f"\n{margin}    ", " ").split("\n"):
        names, _, fact = row.partition(":")
        facts |= dict.fromkeys(names.split(), fact)
    return facts


def word_rows(text: str) -> dict[str, tuple[str, ...]]:
    """Return the words of rows by program."""
    return {name: tuple(fact.split()) for name, fact in rows(text).items()}


# Programs that only read, whatever their arguments.
READERS = _facts(
    "ls lists files; cat reads files; grep searches text; egrep searches text; fgrep searches text; head reads files; "
    "tail reads files; wc counts; stat reads file metadata; pwd prints the current folder; echo prints its arguments; "
    "which finds programs; whoami prints the user; diff compares files; cmp compares files; cut reads text; tr reads "
    "text; basename prints a name; dirname prints a name; realpath prints a path; du measures files; df measures "
    "disks; ps lists processes; true does nothing; false does nothing; sleep waits; seq prints numbers"
)

# Shell builtins that change only the shell, which is about to end.
BUILTINS = words(": cd pushd popd dirs exit return break continue shift wait jobs type set times umask ((")

DESTROYERS = _facts(
    "rm deletes files; rmdir deletes folders; unlink deletes a file; dd writes raw data; mkfs formats a disk; mkswap "
    "formats a disk; fdisk changes partitions; sfdisk changes partitions; gdisk changes partitions; cfdisk changes "
    "partitions; parted changes partitions; wipefs erases a disk; blkdiscard erases a disk; shred destroys files; srm "
    "destroys files; wipe destroys files; fsck changes a disk; reboot restarts the machine; shutdown stops the "
    "machine; halt stops the machine; poweroff stops the machine; kill ends processes; killall ends processes; pkill "
    "ends processes; skill ends processes; rimraf deletes files; del-cli deletes files; sgdisk changes partitions; "
    "lvremove deletes a volume; vgremove deletes volumes; pvremove erases a disk; lvreduce shrinks a volume; e2fsck "
    "changes a disk; debugfs changes a disk; newfs formats a disk; userdel deletes an account; deluser deletes an "
    "account; groupdel deletes a group; delgroup deletes a group; chpasswd changes passwords; visudo changes sudo "
    "privileges; insmod loads code into the kernel; modprobe loads code into the kernel; rmmod unloads code from the "
    "kernel; kexec starts another kernel; dropdb deletes a database; dropuser deletes a database user; pg_resetwal "
    "discards the write-ahead log of a database"
)

KILLERS = words("kill killall pkill skill")

ELEVATORS = _facts(
    "sudo runs with elevated privileges; su runs as another user; doas runs with elevated privileges; pkexec runs "
    "with elevated privileges; runuser runs as another user; sudoedit edits with elevated privileges"
)

CHANGERS = _facts(
    "cp copies files; mv moves files; mkdir creates folders; touch creates files; ln creates links; chmod changes "
    "permissions; chown changes owners; chgrp changes groups; install copies files; tee writes files; sed edits text; "
    "tar packs and unpacks files; zip packs files; unzip unpacks files; curl accesses the network; wget accesses the "
    "network; ssh connects to another machine; scp connects to another machine; rsync copies files; git can change "
    "the repository; alias redefines a name; unalias changes what a name means; make runs the commands of a Makefile; "
    "npm runs scripts of packages; truncate changes the size of files; shopt changes how the shell parses commands"
)

# GNU programs, installed with the prefix g on systems that have another program of that name.
_GNU = words(
    "rm rmdir unlink shred dd kill find xargs env timeout nice nohup stdbuf sort mv cp ln install chmod chown chgrp "
    "truncate split tee date time chroot"
)
GNU = {f"g{name}": name for name in _GNU}

SHELLS = words("sh bash dash zsh ksh mksh ash fish csh tcsh rbash yash osh nu xonsh")

STANDARD_FOLDERS = words("/bin /usr/bin /sbin /usr/sbin /usr/local/bin /opt/homebrew/bin /usr/local/sbin")


class Options(NamedTuple):
    """The options of a program that take a value, and the number of operands before a command it starts."""

    short: str = ""  # letters whose value is the rest of the word or the next word
    long: tuple[str, ...] = ()
    operands: int = 0
    flags: str = ""  # letters without a value
    plain: tuple[str, ...] = ()  # long options without a value


def option_rows(text: str) -> dict[str, Options]:
    """Return the options in rows of up to three parts: those with a value, those without, the number of operands.

    A part starts with letters, or a dot for none, and continues with long names.
    """
    options = {}
    for name, fact in rows(text).items():
        valued, plain, operands = (part.split() for part in f"{fact}||".split("|")[:3])
        short, flags = (part[0].strip(".") if part else "" for part in (valued, plain))
        options[name] = Options(short, tuple(valued[1:]), int(operands[0]) if operands else 0, flags, tuple(plain[1:]))
    return options


# Programs that start the command that follows their own options and operands; first, dynamic loaders.
WRAPPERS = option_rows(
    """
    ld.so ld-linux.so.2 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-linux-armhf.so.3 ld-linux-riscv64-lp64d.so.1
        ld64.so.2 ld-musl-x86_64.so.1 ld-musl-aarch64.so.1: . library-path preload audit argv0 inhibit-rpath | . list
        verify inhibit-cache
    builtin coproc nohup busybox toybox coreutils prlimit rlwrap setpriv firejail bwrap torsocks torify eatmydata
        ccache distcc catchsegv dumb-init cross-env cross-env-shell env-cmd concurrently heaptrack:
    command unbuffer: . | p
    exec: a | cl
    setsid: . | cfw ctty fork wait
    time: fo format output | apvq append portability verbose
    nice: n adjustment | 0123456789
    ionice: cnpPu class classdata | t ignore
    chrt: TPDp | abdfiormv batch fifo idle other rr | 1
    taskset: . | ac all-tasks cpu-list | 1
    timeout: ks kill-after signal | vfp foreground preserve-status verbose | 1
    stdbuf: ioe input output error
    chroot: . groups userspec | . skip-chdir | 1
    unshare: SGRw setuid setgid root wd map-user map-group map-users map-groups setgroups | imnpuUCTfrc fork mount pid
        net user map-root-user ipc uts cgroup mount-proc
    nsenter: tSG target setuid setgid | aimnpuUCTrwFZ all net
    setarch: . | vhR3BFILSTXZ
    linux32 linux64: . | R
    fakeroot: lisbfu | uv
    strace: aeIoOpPsSuXEb | fFcCdhiknqrtTvVwxyYzZ follow-forks summary summary-only
    ltrace: aADeFlnopsuwx | bcCfhiLrStTV
    valgrind: . | qvdh
    caffeinate: tw | disum
    numactl: iNmCpP | sHl
    xvfb-run: efnpsw error-file auth-file server-num server-args | al
    dbus-run-session: . config-file dbus-daemon
    systemd-run: puEHMt | dGPqrS user scope pty wait
    flock: wEc timeout conflict-exit-code | Fensuox | 1
    watch: nqs interval equexit | bcdegptwxr
    xargs: adEILnPs arg-file delimiter max-args max-procs max-chars process-slot-var | 0oprtxie null no-run-if-empty
        verbose exit interactive open-tty
    parallel sem: jIaNnLPSd jobs arg-file delimiter max-args sshlogin | 0kqvtXmu
    sudo: ughpCrtTRDU user group host prompt close-from chdir chroot role type other-user | AbEeHiKklnPSsVv
        preserve-env set-home login non-interactive stdin shell background askpass
    doas: aCu | nsL
    pkexec: . user | . disable-internal-agent
    runuser: ugGsw user group | lmPf
    sshpass: pPdf | ev
    proxychains proxychains4: f | q
    cpulimit: lpe limit pid exe | zimbk
    faketime setuidgid runcon gosu su-exec: . | . | 1
    choom: np
    chpst: unbegmdofpcrlLe | vP012
    tini: pe | sgvw
    entr: . | acdnprsz
    watchexec: wefijdsn watch exts filter ignore | crqv
    direnv: . | . | 2
    env: uCS unset chdir split-string argv0 | 0iv ignore-environment null debug block-signal default-signal
        ignore-signal
    """
)
# Wrappers that pass a word with spaces to a shell.
SHELL_WRAPPERS = words("entr watchexec concurrently cross-env-shell")
# Wrappers through which a harmless command stays harmless.
TRANSPARENT = words(
    "builtin command exec nohup setsid time nice ionice timeout stdbuf env busybox toybox xargs taskset chrt"
)

# Programs with a subcommand before the command they start: uv run X, bundle exec X.
RUNNERS = word_rows(
    """
    uv poetry pipenv pdm hatch rye conda dotenv op doppler dotenvx infisical: run
    bundle pnpm yarn asdf rbenv pyenv opam stack cabal: exec
    npm mise: exec x
    chezmoi: execute-template
    perf: stat record trace
    rr: record
    adb: shell
    """
)

# Programs that run the value of an option as a command; after the bar, the letters of other options with a value.
TEXT_OPTIONS = option_rows(
    """
    script nix sg: c command
    nix-shell: . run command
    xterm konsole alacritty urxvt rxvt: e
    tmux screen zellij: .
    man: PH pager html | CRLmMSserEp
    split: . filter | abCln
    bat batcat delta: . pager
    fzf: . preview bind with-shell
    yt-dlp youtube-dl: . exec exec-before-download netrc-cmd
    aria2c: . on-download-start on-download-complete on-download-stop on-download-error
    pandoc: F filter pdf-engine
    tcpdump: z | BcCDEFGijmMrsTvVwWyZ
    nc ncat netcat: ec exec sh-exec lua-exec | gipsuwx
    mosh: . ssh server | p
    go: . exec toolexec vettool
    hyperfine: psc prepare setup cleanup conclude
    capsh: c
    ansible: a args | imulCtfeM
    nodemon: x exec | ew
    """
)
# Arguments that make a program run code, by how they start, or after a star, by what they contain.
CODE_ARGUMENTS = word_rows(
    """
    gcc g++ cc c++ clang clang++: -fplugin -wrapper -Xclang -load -specs= -B
    tex latex pdflatex xelatex lualatex luatex latexmk: -shell-escape --shell-escape -enable-write18 --enable-write18
    apt apt-get aptitude: -oDPkg:: -oAPT::Update:: DPkg:: APT::Update:: Dpkg::Pre
    rpm rpmbuild: -E --eval -D --define --pipe
    wget: --use-a *use_askpass *useaskpass *use-askpass
    mlr: --prepipe *system( *exec(
    exiftool: -config *system *` *qx
    rename prename perl-rename file-rename: -e -E *system *` *qx *unlink *exec */e
    openssl: -engine -provider-path
    openvpn: --up --down --script-security --plugin --route-up
    ssh-keygen: -D
    ssh-add: -s
    blender: --python-expr
    gimp: -b --batch
    """
)


_RISKY = (
    *("system", "exec", "popen", "shell", "remove", "unlink", "delete", "kill", "spawn", "eval", "rm(", "rm ", "rmdir"),
    *("!", "`", "load", "require", "run", "fork"),
)
_RISKY_PYTHON = (
    *(".system", "popen", "subprocess", "spawn", "fork(", "forkpty", "os.exec", "execv", "execl", "exec(", "eval("),
    *("compile(", "__import__", "importlib", "getattr(", "globals(", "locals(", "__builtins__", "__subclasses__"),
    *("rmtree", "unlink", "os.remove", "rmdir", "removedirs", "from os ", "from shutil ", "import os as"),
    *("import posix", "import shutil as", "pty", "ctypes", "cffi", "kill(", "killpg", "runpy", "marshal", "pickle"),
    *("b64decode", "fromhex", "codecs", "truncate(", "__dict__", "vars(", "breakpoint(", "code.interact", "timeit"),
    *("runctx", "sys.modules", "attrgetter", "methodcaller"),
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
    *("system", "exec", "passthru", "popen", "proc_open", "pcntl", "`", "unlink", "rmdir", "eval", "assert"),
    *("call_user", "include", "require", "create_function", "preg_replace_callback", "posix_kill", "mail(", "ffi"),
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

GIT_READERS = words("status log diff show branch")
GIT_OPTIONS = option_rows(
    """
    git: Cc git-dir work-tree namespace super-prefix config-env attr-source | pPhv no-pager paginate bare
        no-replace-objects literal-pathspecs glob-pathspecs version noglob-pathspecs icase-pathspecs no-optional-locks
        help html-path man-path info-path
    """
)["git"]
# Settings of git whose value git runs, or that lead to such a value.
GIT_RUNS = tuple(
    words(
        "alias. core.pager core.editor core.sshcommand core.fsmonitor core.hookspath core.gitproxy core.askpass "
        "core.alternaterefscommand credential. diff.external filter. gpg. pager. hook. sequence.editor include. "
        "includeif. init.templatedir browser. man. sendemail. web.browser interactive.difffilter protocol. instaweb. "
        "imap.tunnel uploadpack. receive. url. guitool."
    )
)
GIT_RUNS_ENDS = tuple(
    words(
        ".command .textconv .cmd .driver .helper .program .vcs .uploadpack .receivepack .proxy .update .path .tool "
        ".sshcommand .process .clean .smudge"
    )
)

# Subcommands of package managers that remove packages.
REMOVALS = word_rows(
    """
    apt apt-get aptitude nala: autopurge autoremove purge remove
    dnf yum microdnf: autoremove erase remove rm
    zypper bun: remove rm
    apk: del
    brew: autoremove remove rm uninstall zap
    port gem nix-env: uninstall
    snap poetry pdm yarn composer guix: remove
    flatpak uv conda mamba micromamba: remove uninstall
    pip pip3 pipx: uninstall uninstall-all
    npm: prune r remove rm un uninstall unlink unpublish
    pnpm: prune remove rm un uninstall
    cargo: remove rm uninstall
    """
)
PACKAGE_GROUPS = words("pip global env tool cask package")
PACKAGE_OPTIONS = Options(
    short="Cw", long=("prefix", "cwd", "dir", "filter", "workspace", "registry", "root", "project")
)
REMOVAL_FLAGS = word_rows(
    """
    pacman yay paru: -R --remove
    dpkg: -r -P --remove --purge
    rpm: -e --erase
    nix-env: -e --uninstall
    """
)
# Arguments that make a program stop a machine or its services, or change what it starts.
STOPS = word_rows(
    """
    systemctl loginctl: disable edit emergency enable halt hibernate import-environment isolate kexec kill
        kill-session kill-user link mask poweroff reboot rescue revert set-default set-environment stop suspend
        terminate-session terminate-user
    init telinit: 0 6
    service rc-service supervisorctl: remove shutdown stop
    launchctl: bootout bootstrap disable enable kill load remove setenv stop submit unload
    fuser journalctl:
    """
)
# Options that make a program destroy data permanently; after the bar, the letters of other options with a value.
LOSSES = option_rows(
    """
    iptables ip6tables: FXD flush delete-chain delete | AIjpsdioPtm
    pg_restore: c clean | dfFhIjLnNPpSTtU
    gpg: . delete-keys delete-secret-keys delete-secret-and-public-keys | o
    mdadm: S zero-superblock stop remove
    hdparm: . security-erase trim-sector-ranges write-sector
    badblocks: wn | bcdeiopt
    """
)

# Variables that hold the options of a program, with that program.
OPTIONS_OF = {
    name: fact.strip()
    for name, fact in rows(
        """
    TAR_OPTIONS: tar
    LESS: less
    MANOPT: man
    MAKEFLAGS GNUMAKEFLAGS: make
    ZIPOPT ZIP: zip
    UNZIP: unzip
    FZF_DEFAULT_OPTS: fzf
    """
    ).items()
}
# Variables that change which programs or files others find.
CHANGES_LOOKUP_STARTS = ("LD_", "DYLD_", "PYTHON", "GIT_", "NPM_CONFIG_", "npm_")
CHANGES_LOOKUP = frozenset(
    (
        *OPTIONS_OF,
        *variables.OPTIONS,
        *variables.FOLDERS,
        *words("SHELLOPTS BASHOPTS EXECIGNORE GLOBIGNORE LOCPATH NLSPATH TERMINFO HOME XDG_CONFIG_HOME HOSTALIASES"),
        *words("GREP_OPTIONS KUBECONFIG DOCKER_HOST INPUTRC MALLOC_CONF"),
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


def option_values(
    words: Sequence[str | None], letters: str, *names: str, stops: str = "", exact: bool = False
) -> list[str | None]:
    """Return the values of these options, attached or in the next word; with `exact`, no abbreviated ones."""
    values: list[str | None] = []
    for index, word in enumerate(words):
        if word == "--":
            break
        if word is None or not word.startswith("-"):
            continue
        following = words[index + 1] if index + 1 < len(words) else None
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name and any(full == name or (not exact and full.startswith(name)) for full in names):
                values.append(value if equals else following)
            continue
        for place, letter in enumerate(word[1:], 1):
            if letter in letters:
                values.append(word[place + 1 :] or following)
            if letter in letters or letter in stops:
                break
    return values


def long_values(words: Sequence[str | None], name: str, *, exact: bool = False) -> list[str | None]:
    """Return the values of one long option."""
    return option_values(words, "", name, exact=exact)


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
