"""Clients of remote systems: containers, clusters, clouds, databases and other machines."""

from __future__ import annotations

from collections.abc import Sequence

from hilt.shell import programs
from hilt.shell.quoting import ShellWord
from hilt.shell.rating import CommandPlace, Rate, Rated, Rater, worse

_CONTAINERS = ("docker", "podman", "nerdctl", "docker-compose", "podman-compose")
_CONTAINER_OPTIONS = programs.Options(
    short="Hclf", long=("host", "context", "config", "log-level", "file", "connection", "url", "project-name")
)
_CONTAINER_GROUPS = programs.words(
    "container image volume network system builder buildx compose stack service secret config context node plugin "
    "swarm manifest pod machine kube artifact"
)
_DELETES = programs.words("rm rmi prune remove kill reset")
# options of run, exec and create that take no value; every other long one does
_RUN_FLAGS = programs.words(
    "detach interactive tty rm privileged init read-only publish-all quiet help no-healthcheck oom-kill-disable "
    "sig-proxy no-deps service-ports build replace no-tty"
)
_RUN_LETTERS = "aceghlmpuvw"
_MOUNTED = ("/etc", "/root", "/home", "/var", "/usr", "/boot", "/proc", "/sys", "/dev", "/run", "/lib", "/bin", "/opt")
_ESCAPES = ("--privileged", "--pid=host", "--ipc=host", "--userns=host", "--cap-add", "--device", "--security-opt")

_CLUSTER_OPTIONS = programs.Options(
    short="nsv",
    long=(
        *("namespace", "context", "kubeconfig", "cluster", "user", "server", "token", "as", "as-group", "cache-dir"),
        *("certificate-authority", "client-certificate", "client-key", "request-timeout", "tls-server-name", "v"),
    ),
)
_DESTRUCTIVE = programs.word_rows(
    """
    kubectl oc: delete drain delete-context delete-cluster delete-user
    terraform tofu terragrunt: destroy rm delete force-unlock
    pulumi: destroy down rm delete
    helm: uninstall delete del un
    """
)

# subcommands of cloud and storage clients that delete
_CLOUD_DELETES = programs.words(
    "delete destroy rm rb remove purge terminate del drop wipe nuke undefine uninstall teardown unregister "
    "deregister deletefile rmdir rmdirs mb-remove"
)
_CLOUDS = programs.words(
    "aws gcloud gsutil bq az doctl heroku fly flyctl gh glab firebase vercel netlify rclone s3cmd s5cmd mc hcloud "
    "linode-cli ibmcloud oci scw eksctl kops minikube kind k3d argocd vault consul nomad etcdctl influx cf supabase "
    "wrangler serverless sls sam cdk vagrant multipass lxc incus virsh zfs zpool btrfs nmcli skopeo oras crane "
    "railway render pscale turso neonctl nvme cryptsetup diskutil"
)
_DISK_WORDS = programs.words("luksformat erase format sanitize erasedisk erasevolume labelclear")

# SQL and client commands that delete permanently, access files or run a program
_SQL_LOSES = r"\b(?:drop|truncate|delete|shutdown|kill|purge|flush)\b"
_SQL_RUNS = (
    r"\\!|\bprogram\s*'|(?:^|[;\n])\s*(?:system|source|\\\.|\\[io])|\bsys_(?:exec|eval)\b|\bxp_cmdshell\b|\bload_extension\b"
    r"|(?:^|[;\n])\s*\.(?:shell|system|sh|sy\w*|she\w*|load|excel|read|import|output|once|ou\w*|on\w*)\b.*"
    r"|\binto\s+(?:out|dump)file\b|\blo_(?:import|export)\b|\\g\s*\||\bwritefile\b|\bedit\s*\("
)
# the options of a database client that take a query; after the bar, the letters of other options with a value
_DATABASES = programs.option_rows(
    """
    mysql mariadb: e execute | hPuDS
    psql: c command | dfhpUvLoFRPT
    sqlcmd: Qq query | SUPdio
    cqlsh: e execute | fkup
    clickhouse-client clickhouse: q query | hud
    mongosh mongo: . eval | upd
    duckdb: c cmd command
    sqlite3 sqlite: . cmd
    """
)
_SCRIPT_STORES = ("mongosh", "mongo")
_SCRIPT_LOSES = (
    *("drop", "delete", "remove", "shutdown", "runcommand", "eval", "require", "load(", "exec", "admincommand"),
)
_REDIS = programs.words(
    "flushall flushdb del unlink getdel shutdown config eval evalsha fcall script function module debug replicaof "
    "slaveof migrate swapdb cluster acl failover"
)


def _rate_container(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    operands = programs.positionals(values, _CONTAINER_OPTIONS)
    verbs = operands[:1] if not operands or operands[0] not in _CONTAINER_GROUPS else operands[:2]
    if None in verbs:
        return Rated("dangerous", f"the command of {name} is only known at run time")
    last = verbs[-1] if verbs else None
    subcommand = " ".join(verb for verb in verbs if verb)
    if last in _DELETES:
        return Rated("dangerous", f"{name} {subcommand} deletes")
    if last == "down" and programs.has_flag(values, "v", "volumes", "rmi"):
        return Rated("dangerous", f"{name} {subcommand} deletes volumes or images")
    if last == "leave" and programs.has_flag(values, "f", "force"):
        return Rated("dangerous", f"{name} {subcommand} deletes the state of the swarm")
    rated = Rated("caution", f"{name} runs containers")
    if last in ("run", "exec", "create", "unshare"):
        at = values.index(last, values.index(verbs[0])) + 1
        rated = worse(rated, _rate_container_command(rater, name, last, arguments[at:], place))
    return rated


def _rate_container_command(
    rater: Rater, name: str, verb: str, arguments: Sequence[ShellWord], place: CommandPlace
) -> Rated:
    """Rate the options of a container, and the command started in it."""
    rated = Rated("safe", "")
    index = 0
    while index < len(arguments):
        word = arguments[index]
        value = word.value or word.text.strip("\"'")
        if not value.startswith("-"):
            break
        index += 1
        option = value
        if value.startswith("--"):
            has_next = "=" not in value and value[2:] not in _RUN_FLAGS
        else:
            has_next = programs.takes_next(value, _RUN_LETTERS)
        if has_next and index < len(arguments):
            following = arguments[index].value or arguments[index].text.strip("\"'")
            option = f"{value}={following}"
            index += 1
        if option.startswith(_ESCAPES) or _mounts_host_folder(option):
            rated = Rated("dangerous", f"{name} {verb} {option[:80]} exposes this machine to the container")
    inner = arguments[index + (verb != "unshare") :]
    if inner:
        rater.start(inner, place)
    return rated


def _mounts_host_folder(option: str) -> bool:
    """Whether an option of a container mounts the root, a home folder or a system folder of the host."""
    name, _, value = option.partition("=")
    if name == "--volume":
        source = value.partition(":")[0]
    elif not option.startswith("--") and "v" in name:
        source = (value or name.partition("v")[2]).partition(":")[0]
    elif name == "--mount":
        pairs = dict(pair.partition("=")[::2] for pair in value.split(","))
        source = pairs.get("source") or pairs.get("src") or ""
    else:
        return False
    source = source.rstrip("/") or ("/" if source else "")
    if source in ("/", "~", "$HOME", "${HOME}") or source.endswith(".sock"):
        return True
    return source.count("/") <= 2 and source.startswith(_MOUNTED)


def _rate_cluster(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    destructive = _DESTRUCTIVE[name]
    operands = programs.positionals(values, _CLUSTER_OPTIONS)
    first = operands[0] if operands else ""
    if first is None:
        return Rated("dangerous", f"the command of {name} is only known at run time")
    if any(operand in destructive for operand in operands[:2]) or (
        first not in ("plan", "preview", "refresh")
        and any((v or "").startswith(("-destroy", "--destroy")) for v in values)
    ):
        return Rated("dangerous", f"{name} {destructive[0]} deletes the resources it manages")
    if (first == "replace" and "--force" in values) or (first == "apply" and "--prune" in values):
        return Rated("dangerous", f"{name} {first} deletes the resources it manages")
    rated = Rated("caution", f"{name} can change the resources it manages")
    for text in programs.long_values(values, "post-renderer", exact=True):
        rated = worse(rated, rater.start_text(text, place, f"{name} --post-renderer"))
    if name in ("kubectl", "oc") and first in ("exec", "rsh", "debug"):
        at = values.index("--") + 1 if "--" in values else None
        if at is None and len(operands) > 2:
            at = values.index(operands[2], values.index(operands[1], values.index(first) + 1) + 1)
        if at is not None and arguments[at:]:
            rater.start(arguments[at:], place)
    return rated


def _rate_cloud(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    values = [word.value for word in arguments]
    operands = programs.positionals(values)[:5]
    for operand in operands:
        word = (operand or "").lower()
        verb = word.rpartition(":")[2]
        if (
            verb in _CLOUD_DELETES
            or verb in _DISK_WORDS
            or (name == "aws" and verb.partition("-")[0] in _CLOUD_DELETES)
        ):
            return Rated("dangerous", f"{name} {word} deletes permanently")
    methods = programs.option_values(values, "X", "method", stops="fFHq") if name in ("gh", "glab") else []
    if "DELETE" in [(method or "").upper() for method in methods]:
        return Rated("dangerous", f"{name} deletes permanently")
    if ("sync" in operands and (name == "rclone" or "--delete" in values)) or (
        name == "gsutil" and "rsync" in operands and programs.has_flag(values, "d")
    ):
        return Rated("dangerous", f"{name} deletes files that the source does not have")
    rated = Rated("caution", f"{name} is not known to be harmless")
    if name in ("gh", "glab") and operands[:2] == ["alias", "set"] and len(operands) > 3:
        alias = operands[3]
        rated = worse(rated, rater.start_text(alias and alias.removeprefix("!"), place, f"{name} alias"))
    for text in programs.long_values(values, "command", exact=True) if name in ("gcloud", "vagrant") else ():
        rated = worse(rated, rater.start_text(text, place, name))
    if "exec" in operands[:1] and "--" in values:
        inner = arguments[values.index("--") + 1 :]
        if inner:
            rater.start(inner, place)
    return rated


def _rate_database(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    import re

    values = [word.value for word in arguments]
    letters, names, _, stops, _ = _DATABASES[name]
    texts = programs.option_values(values, letters, *names, stops=stops)
    if name in ("sqlite3", "sqlite", "duckdb"):
        # one dash before a long name; the file, then commands
        texts += [values[at + 1] for at, value in enumerate(values[:-1]) if value in ("-cmd", "-c")]
        texts += programs.positionals(values, programs.Options("", ("cmd", "init", "separator", "nullvalue")))[1:]
    if place.input is not None:
        texts.append(place.input)
    elif place.fed:
        return rater.start_unseen(place, f"{name} runs its standard input")
    if name in ("mysql", "mariadb"):
        for text in programs.long_values(values, "pager", exact=True):
            rater.start_text(text, place, f"{name} --pager")
    for text in texts:
        if text is None:
            return rater.start_unseen(place, f"{name} runs text that is computed at run time")
        lowered = text.lower()
        if name in _SCRIPT_STORES:
            if any(sign in lowered for sign in _SCRIPT_LOSES):
                return rater.start_unseen(place, f"{name} deletes or runs code")
        elif re.search(_SQL_RUNS, lowered):
            return rater.start_unseen(place, f"{name} runs a program, or accesses files")
        elif re.search(_SQL_LOSES, lowered):
            return Rated("dangerous", f"{name} deletes permanently")
    return Rated("caution", f"{name} is not known to be harmless")


def _rate_store(rater: Rater, name: str, arguments: Sequence[ShellWord], place: CommandPlace) -> Rated:
    """Rate clients whose operands are a command of the server."""
    values = [word.value for word in arguments]
    operands = programs.positionals(values, programs.Options("hpasunrdDix", ("user", "pass", "eval")))
    if place.fed and not operands:
        return rater.start_unseen(place, f"{name} runs its standard input")
    if programs.has_flag(values, "", "eval", "pipe", "functions-rdb"):
        return rater.start_unseen(place, f"{name} runs a script")
    if any((operand or "").lower() in _REDIS for operand in operands[:1]):
        return Rated("dangerous", f"{name} {operands[0]} deletes permanently, or changes the server")
    if name.endswith("admin") and any(operand in ("drop", "shutdown", "kill") for operand in operands):
        return Rated("dangerous", f"{name} deletes permanently, or stops the server")
    return Rated("caution", f"{name} is not known to be harmless")


RATED: dict[str, Rate] = {
    **dict.fromkeys(_CLOUDS, _rate_cloud),
    **dict.fromkeys(_CONTAINERS, _rate_container),
    **dict.fromkeys(_DESTRUCTIVE, _rate_cluster),
    **dict.fromkeys(_DATABASES, _rate_database),
    **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli", "mysqladmin", "mariadb-admin"), _rate_store),
}
