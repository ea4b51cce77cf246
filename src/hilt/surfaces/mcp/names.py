"""Names and limits of the MCP surface."""

OWN = "dev.hilt/"  # prefix of all our keys in `_meta`
APPROVAL = f"{OWN}approval"  # in a call: the id of an approval that a person gave in a terminal
SESSION = f"{OWN}session"  # in a call of a client without a connection: the session to continue

REQUESTS_MAX = 512  # active requests of a client on a connection; at this limit, further ones wait
LINES_MAX = 256  # lines read and not yet handled; at this limit, reading pauses
FLUSH_SECONDS = 1.0  # for a client to read the last answers

RESULT_CHARACTERS = 200_000  # that Claude Code passes to its model in full; by default it cuts at 50,000, to 2 KB
META_CHARACTERS = 4000  # of metadata for programs in an answer
MESSAGE_CHARACTERS = 4000  # of the diff or command in an approval form

TASKS = "io.modelcontextprotocol/tasks"  # the extension for calls that are answered later
