"""Names and limits of the MCP surface."""

OWN = "dev.hilt/"  # prefix of all our keys in `_meta`
APPROVAL = f"{OWN}approval"  # in a call: the id of an approval given in a terminal
SESSION = f"{OWN}session"  # in a call of a client without a connection: the session to continue

REQUESTS_MAX = 512  # active requests of a client on a connection; at this limit, further ones wait
LINES_MAX = 256  # lines read and not yet handled; at this limit, reading pauses
FLUSH_SECONDS = 1.0  # for a client to read the last responses

RESULT_CHARACTERS = 200_000  # limit for Claude Code, which by default cuts results over 50,000 characters to 2 KB
META_CHARACTERS = 4000  # of metadata for programs in a result
MESSAGE_CHARACTERS = 4000  # of the diff or command in an approval form

TASKS = "io.modelcontextprotocol/tasks"  # the extension for calls whose result the client polls for
