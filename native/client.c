/* The command `hilt`: hands a one-shot call or `hilt mcp` to the resident process, and runs hilt-py otherwise.
 *
 * hilt-py, beside this program, is the same command in Python. It takes over whenever this program cannot decide: no
 * resident process, an unknown option or value, a state directory whose path needs Python's rules. Nothing
 * is read from standard input before the resident process accepts the command, so hilt-py misses nothing.
 *
 * src/hilt/surfaces/handover.py describes the protocol; tests/surfaces/test_native_client.py compares the clients.
 */

#define _GNU_SOURCE /* struct ucred */
#define _DARWIN_C_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <sys/auxv.h>
#endif

#ifndef HILT_VERSION
#error "compile with -DHILT_VERSION, as scripts/native.py does"
#endif

#define PROTOCOL "hilt-resident-2"
#define HEADER_BYTES (1024 * 1024) /* the resident process rejects longer headers */
#define CHUNK_BYTES 65536
#define LINKS_MAX 40
#define PYTHON "hilt-py"
#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { CANNOT_WRITE = 1, INTERRUPTED = 130, NO_PYTHON = 127 };

static const char LOST[] =
    "{\"ok\":false,\"error\":\"The resident process exited before it answered; the call may have run.\","
    "\"error_code\":\"internal\",\"suggestion\":\"Check whether the call took effect before you send it again.\"}\n";

/* an option that this program hands over; `choices` are its valid values, separated by spaces, or NULL for any: the
   build passes those of src/hilt/choices.py */
struct option {
    const char *name;
    const char *choices;
    bool is_for_mcp;
};

static const struct option OPTIONS[] = {
    {"workspace", NULL, true},
    {"session", NULL, true},
    {"mode", HILT_MODE, false},
    {"approve", HILT_APPROVE, false},
    {"profile", HILT_PROFILE, true},
    {"tools", NULL, true},
    {"tools-dir", NULL, false},
    {"dialect", HILT_DIALECT, true},
    {"allow-private", NULL, false},
};

static const char *const VOLATILE[] = {"_", "OLDPWD", "PWD", "SHLVL"};

extern char **environ;

static char header[HEADER_BYTES];
static size_t header_length;
static bool header_overflow;

static void (*pipe_signal)(int);

/* Writes a message to standard error; the last part is NULL. */
static void complain(const char *const *parts) {
    for (; *parts != NULL; parts++)
        if (write(STDERR_FILENO, *parts, strlen(*parts)) < 0)
            return;
}

/* Writes the concatenation of two strings; false if it is too long. */
static bool join(char *target, size_t size, const char *first, const char *second) {
    size_t length = strlen(first), rest = strlen(second) + 1;
    if (length > size || rest > size - length)
        return false;
    memmove(target, first, length);
    memcpy(target + length, second, rest);
    return true;
}

/* ---- hilt-py ---- */

/* Writes the path by which this program was started. */
static bool find_started(char path[static PATH_MAX]) {
#ifdef __APPLE__
    uint32_t size = PATH_MAX;
    return _NSGetExecutablePath(path, &size) == 0;
#else
    const char *started = (const char *)getauxval(AT_EXECFN); /* from the kernel, not from the caller's argv */
    return started != NULL && join(path, PATH_MAX, started, "");
#endif
}

/* Writes the real location of this program. */
static bool find_real(char path[static PATH_MAX]) {
#ifndef __APPLE__
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length > 0 && length < PATH_MAX) {
        path[length] = '\0';
        return true;
    }
#endif
    char started[PATH_MAX];
    return find_started(started) && realpath(started, path) != NULL;
}

/* Replaces the last component of a path. */
static bool replace_name(char path[static PATH_MAX], const char *name) {
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    slash[1] = '\0';
    return join(path, PATH_MAX, path, name);
}

/* Resolves one level of the symbolic link at a path; false if it is not a link. */
static bool follow(char path[static PATH_MAX]) {
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target);
    if (length <= 0 || length >= PATH_MAX)
        return false;
    target[length] = '\0';
    return target[0] == '/' ? join(path, PATH_MAX, target, "") : replace_name(path, target);
}

/* Writes the path of hilt-py: beside the real location of this program, or beside the last of the links to it, because
 * uv can install links to its cache. */
static bool find_python(char path[static PATH_MAX]) {
    char started[PATH_MAX], beside[PATH_MAX];
    bool is_found = find_real(path) && replace_name(path, PYTHON);
    if (is_found && access(path, X_OK) == 0)
        return true;
    bool is_link = find_started(started) && started[0] == '/';
    for (int links = 0; is_link && links < LINKS_MAX; links++) {
        if (join(beside, sizeof beside, started, "") && replace_name(beside, PYTHON) && access(beside, X_OK) == 0)
            is_found = join(path, PATH_MAX, beside, "");
        is_link = follow(started);
    }
    return is_found;
}

static _Noreturn void run_python(char **arguments) {
    char path[PATH_MAX];
    signal(SIGPIPE, pipe_signal);
    if (find_python(path)) {
        arguments[0] = path;
        execv(path, arguments);
        complain((const char *[]){"hilt: cannot run ", path, ": ", strerror(errno), "\nReinstall hilt.\n", NULL});
    } else {
        complain((const char *[]){"hilt: cannot find " PYTHON " beside hilt\nReinstall hilt.\n", NULL});
    }
    exit(NO_PYTHON);
}

/* ---- the header ---- */

static void add(const char *bytes, size_t length) {
    if (length > sizeof header - header_length) {
        header_overflow = true;
        return;
    }
    memcpy(header + header_length, bytes, length);
    header_length += length;
}

static void add_text(const char *text) {
    add(text, strlen(text));
}

/* Adds a string and the NUL that ends a field. */
static void add_field(const char *text) {
    add(text, strlen(text) + 1);
}

static void add_option(const char *name, const char *value) {
    add_text("o:");
    add_text(name);
    add_text("=");
    add_field(value);
}

static size_t name_length(const char *entry) {
    return strcspn(entry, "=");
}

static bool same_name(const char *entry, const char *name, size_t length) {
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* Returns the value of an environment variable. If a name occurs twice, Python uses the first, and so does this. */
static const char *variable(const char *name) {
    size_t length = strlen(name);
    for (char **entry = environ; *entry != NULL; entry++)
        if (same_name(*entry, name, length))
            return *entry + length + 1;
    return NULL;
}

static const char *non_empty(const char *name) {
    const char *value = variable(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static bool is_sent(char *const *entry) {
    size_t length = name_length(*entry);
    if ((*entry)[length] != '=')
        return false;
    for (size_t index = 0; index < COUNT(VOLATILE); index++)
        if (same_name(*entry, VOLATILE[index], strlen(VOLATILE[index])))
            return false;
    for (char *const *earlier = environ; earlier < entry; earlier++)
        if (same_name(*earlier, *entry, length))
            return false;
    return true;
}

static void add_environment(void) {
    for (char **entry = environ; *entry != NULL; entry++)
        if (is_sent(entry)) {
            add_text("e:");
            add_field(*entry);
        }
}

/* ---- the command line ---- */

static bool is_choice(const char *choices, const char *value) {
    size_t length = strlen(value);
    for (const char *choice = choices; *choice != '\0';) {
        size_t end = strcspn(choice, " ");
        if (end == length && strncmp(choice, value, length) == 0)
            return true;
        choice += end + (choice[end] == ' ');
    }
    return false;
}

static bool is_ascii(const char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text > 127)
            return false;
    return true;
}

static const struct option *find_option(const char *name, size_t length) {
    for (size_t index = 0; index < COUNT(OPTIONS); index++)
        if (strncmp(OPTIONS[index].name, name, length) == 0 && OPTIONS[index].name[length] == '\0')
            return &OPTIONS[index];
    return NULL;
}

struct command {
    bool is_mcp;
    bool searches;
    size_t count;
    const struct option *options[COUNT(OPTIONS)];
    const char *values[COUNT(OPTIONS)];
};

static bool take_option(struct command *command, const struct option *option, const char *value) {
    if (value == NULL || *value == '\0')
        return false;
    if (option->choices != NULL ? !is_choice(option->choices, value)
                                : strcmp(option->name, "workspace") != 0 && !is_ascii(value))
        return false; /* Python validates UTF-8 */
    for (size_t index = 0; index < command->count; index++)
        if (command->options[index] == option)
            return false; /* Python decides which options may be repeated */
    command->options[command->count] = option;
    command->values[command->count++] = value;
    return true;
}

/* Parses the command line; false if it is neither a one-shot call nor `hilt mcp`, or only Python can decide. */
static bool read_command(struct command *command, char **arguments) {
    for (; *arguments != NULL; arguments++) {
        const char *argument = *arguments;
        size_t length = name_length(argument);
        const struct option *option = strncmp(argument, "--", 2) == 0 ? find_option(argument + 2, length - 2) : NULL;
        if (option != NULL) {
            const char *value = argument[length] == '=' ? argument + length + 1 : arguments[1];
            if (!take_option(command, option, value))
                return false;
            if (argument[length] != '=')
                arguments++;
        } else if (strcmp(argument, "mcp") == 0 && !command->is_mcp) {
            command->is_mcp = true;
        } else if (strcmp(argument, "--search") == 0 && command->is_mcp && !command->searches) {
            command->searches = true;
        } else {
            return false;
        }
    }
    for (size_t index = 0; command->is_mcp && index < command->count; index++)
        if (!command->options[index]->is_for_mcp)
            return false;
    return true;
}

/* Whether this command may use the resident process, with these streams and variables. */
static bool may_hand_over(const struct command *command) {
    struct stat input;
    for (int number = 0; number <= 2; number++)
        if (fcntl(number, F_GETFD) < 0)
            return false; /* a descriptor opened here would get this number */
    if (fstat(0, &input) != 0 || S_ISDIR(input.st_mode) || isatty(0))
        return false;
    if (variable("_ARGCOMPLETE") != NULL)
        return false; /* a shell asks for completions */
    const char *resident = variable("HILT_RESIDENT");
    if (resident != NULL && strcmp(resident, "off") == 0)
        return false;
    return !command->is_mcp || variable("HILT_MCP") == NULL;
}

static bool write_header(const struct command *command) {
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) == NULL || folder[0] != '/')
        return false;
    add_field(PROTOCOL);
    add_field(HILT_VERSION);
    add_field(command->is_mcp ? "mcp" : "call");
    add_field(folder);
    for (size_t index = 0; index < command->count; index++)
        add_option(command->options[index]->name, command->values[index]);
    if (command->searches)
        add_option("search", "on");
    add_environment();
    add("\n", 1);
    return !header_overflow;
}

/* ---- the connection ---- */

/* Writes the state directory; false if it is not an absolute path that needs no normalization. */
static bool find_state(char state[static PATH_MAX]) {
    const char *base = non_empty("HILT_STATE_DIR");
    const char *below = "";
    if (base == NULL) {
        base = non_empty("XDG_STATE_HOME");
        below = "/hilt";
    }
    if (base == NULL) {
        base = non_empty("HOME");
        below = "/.local/state/hilt";
    }
    if (base == NULL || *base != '/')
        return false;
    for (const char *name = base; *name != '\0'; name += strcspn(name, "/")) {
        name += strspn(name, "/");
        size_t length = strcspn(name, "/");
        if ((length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.'))
            return false;
    }
    return join(state, PATH_MAX, base, below);
}

static bool is_own_user(int server) {
#ifdef __APPLE__
    uid_t user;
    gid_t group;
    return getpeereid(server, &user, &group) == 0 && user == geteuid();
#else
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(server, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
#endif
}

static bool open_socket(int server, const char *state) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int folder = -1;
    if (!join(address.sun_path, sizeof address.sun_path, state, "/resident.sock")) {
        /* a descriptor of the folder shortens any path */
        char digits[] = "/proc/self/fd/0000000000", *digit = digits + sizeof digits - 1;
        folder = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0)
            return false;
        for (int rest = folder; rest > 0; rest /= 10)
            *--digit = (char)('0' + rest % 10);
        memmove(digits + sizeof "/proc/self/fd/" - 1, digit, strlen(digit) + 1);
        join(address.sun_path, sizeof address.sun_path, digits, "/resident.sock");
    }
    bool is_connected = connect(server, (const struct sockaddr *)&address, sizeof address) == 0;
    if (folder >= 0)
        close(folder);
    return is_connected && is_own_user(server);
}

static bool send_header(int server) {
    for (size_t sent = 0; sent < header_length;) {
        ssize_t count = write(server, header + sent, header_length - sent);
        if (count < 0 && errno != EINTR)
            return false;
        sent += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool is_accepted(int server) {
    char answer;
    ssize_t count;
    do
        count = read(server, &answer, 1);
    while (count < 0 && errno == EINTR);
    return count == 1 && answer == '+';
}

/* Returns a connection to the resident process, which has accepted the command; -1 if there is none. */
static int hand_over(const struct command *command) {
    char state[PATH_MAX];
    if (!find_state(state) || !write_header(command))
        return -1;
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (server < 0)
        return -1;
    if (open_socket(server, state) && send_header(server) && is_accepted(server))
        return server;
    close(server);
    return -1;
}

/* ---- the streams ---- */

struct buffer {
    size_t start;
    size_t end;
    char bytes[CHUNK_BYTES];
};

static bool is_empty(const struct buffer *buffer) {
    return buffer->start == buffer->end;
}

/* Reads into an empty buffer; false at the end of the input, or if it cannot be read. */
static bool fill(struct buffer *buffer, int source) {
    buffer->start = buffer->end = 0;
    ssize_t count = read(source, buffer->bytes, sizeof buffer->bytes);
    if (count < 0)
        return errno == EINTR || errno == EAGAIN;
    buffer->end = (size_t)count;
    return count > 0;
}

/* Removes the bytes that were written; false if writing failed. */
static bool take(struct buffer *buffer, ssize_t count) {
    if (count < 0)
        return errno == EINTR || errno == EAGAIN;
    buffer->start += (size_t)count;
    return true;
}

static _Noreturn void fail_to_write(void) {
    if (errno != EPIPE)
        complain((const char *[]){"hilt: cannot write: ", strerror(errno), "\n", NULL});
    exit(CANNOT_WRITE);
}

static void write_all(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t count = write(STDOUT_FILENO, bytes, length);
        if (count < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, -1);
        else if (count < 0 && errno != EINTR)
            fail_to_write();
        bytes += count > 0 ? count : 0;
        length -= count > 0 ? (size_t)count : 0;
    }
}

/* What follows the replies of a call: NUL and the exit status as a digit. */
struct ending {
    size_t length;
    char status;
};

/* Cuts the ending off the replies, which contain no NUL. */
static void take_ending(struct ending *ending, struct buffer *replies) {
    char *end = ending->length > 0 ? replies->bytes : memchr(replies->bytes, '\0', replies->end);
    if (end == NULL)
        return;
    for (const char *byte = end; byte < replies->bytes + replies->end; byte++)
        if (ending->length++ == 1)
            ending->status = *byte;
    replies->end = (size_t)(end - replies->bytes);
}

static int status_of_call(const struct ending *ending) {
    if (ending->length == 2 && ending->status >= '0' && ending->status <= '9')
        return ending->status - '0';
    write_all(LOST, sizeof LOST - 1);
    return 1;
}

/* Copies standard input to the server and its answer to standard output, until the server closes the connection. */
static int relay(int server, bool is_mcp) {
    static struct buffer requests, replies;
    struct ending ending = {0};
    struct stat output;
    char last = '\n';
    bool has_input = true;
    bool is_file = fstat(STDOUT_FILENO, &output) == 0 && S_ISREG(output.st_mode);
    for (;;) {
        short events = (short)((is_empty(&replies) ? POLLIN : 0) | (is_empty(&requests) ? 0 : POLLOUT));
        struct pollfd streams[] = {
            {.fd = has_input && is_empty(&requests) ? STDIN_FILENO : -1, .events = POLLIN},
            {.fd = events != 0 ? server : -1, .events = events},
            {.fd = is_empty(&replies) ? -1 : STDOUT_FILENO, .events = POLLOUT},
        };
        if (poll(streams, COUNT(streams), -1) < 0) {
            if (errno == EINTR)
                continue;
            return is_mcp ? 1 : status_of_call(&ending);
        }
        if (streams[0].revents != 0 && !fill(&requests, STDIN_FILENO)) {
            has_input = false;
            shutdown(server, SHUT_WR);
        }
        if (!is_empty(&requests) &&
            !take(&requests, send(server, requests.bytes + requests.start, requests.end - requests.start, MSG_DONTWAIT))) {
            has_input = false; /* the server is gone; what it sent before is still copied */
            requests.start = requests.end;
        }
        if ((streams[1].revents & ~POLLOUT) != 0 && is_empty(&replies)) {
            if (!fill(&replies, server))
                return is_mcp ? last != '\n' : status_of_call(&ending);
            if (!is_mcp)
                take_ending(&ending, &replies);
            if (!is_empty(&replies))
                last = replies.bytes[replies.end - 1];
        }
        if (streams[2].revents != 0) {
            /* this size never blocks after poll has reported POLLOUT, so input is still copied */
            size_t size = replies.end - replies.start;
            size = is_file || size < PIPE_BUF ? size : PIPE_BUF;
            if (!take(&replies, write(STDOUT_FILENO, replies.bytes + replies.start, size)))
                fail_to_write();
        }
    }
}

/* Python ends an interrupted call with the same status. */
static void interrupt(int number) {
    (void)number;
    _exit(INTERRUPTED);
}

int main(int count, char **arguments) {
    static char *no_arguments[] = {NULL, NULL};
    struct command command = {0};
    if (count < 1)
        arguments = no_arguments;
    pipe_signal = signal(SIGPIPE, SIG_IGN);
    if (count >= 1 && read_command(&command, arguments + 1) && may_hand_over(&command)) {
        if (!command.is_mcp && signal(SIGINT, interrupt) == SIG_IGN)
            signal(SIGINT, SIG_IGN);
        int server = hand_over(&command);
        if (server >= 0)
            return relay(server, command.is_mcp);
    }
    run_python(arguments);
}
