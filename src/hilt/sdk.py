"""The MCP SDK, imported as a whole before any of its modules.

Its modules import each other in circles, so two threads that begin with different ones, such as those of the server and
of the client, fail. While one thread imports this module, others wait for it.
"""

import mcp  # noqa: F401
