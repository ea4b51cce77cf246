"""Names and bounds of the MCP surface."""

OWN = "dev.hilt/"  # before every key of ours under `_meta`
APPROVAL = f"{OWN}approval"  # in a call: the id of an approval that a person gave in a terminal
SESSION = f"{OWN}session"  # in a call of a client without connection: the session it goes on with

RESULT_CHARACTERS = 200_000  # that Claude Code shows its model whole; unasked, 2 KB of what is over 50,000
META_CHARACTERS = 4000  # of facts for programs beside an answer
MESSAGE_CHARACTERS = 4000  # of a diff or command that a person is asked about
