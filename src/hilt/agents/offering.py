"""What a request sends besides the messages: the system prompt, and the tools that the session offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic_ai.messages import ModelMessage

from hilt.agents.context_size import CHARACTERS_PER_TOKEN
from hilt.agents.interruption import offload
from hilt.agents.marks import Marks
from hilt.agents.model import ModelInput, OfferedTool
from hilt.agents.prompts import ProjectPrompt, read_project, system_prompt
from hilt.declaration import Traits
from hilt.listing import ListedTool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

_NO_TRAITS = Traits()  # of a tool that is not offered


class Offering:
    """The system prompt and the tools of one conversation."""

    def __init__(self, runtime: Runtime, marks: Marks, role: str, *, asks_person: bool) -> None:
        """`role` replaces the usual prompt. `asks_person` is whether there is a user to ask."""
        self._runtime = runtime
        self._marks = marks
        self._role = role
        self._asks_person = asks_person
        self._project: ProjectPrompt | None = None
        self._tools: list[ListedTool] | None = None
        self._traits: dict[str, Traits] = {}
        self._schema_characters = 0  # of all tools
        self._system_characters = 0  # of the last request

    def forget_tools(self) -> None:
        """List the tools again before the next request."""
        self._tools = None

    def traits(self, tool: str) -> Traits:
        """Return the traits of a tool."""
        return self._traits.get(tool, _NO_TRAITS)

    @property
    def tokens(self) -> int:
        """An estimate of what a request has besides the messages."""
        return (self._schema_characters + self._system_characters) // CHARACTERS_PER_TOKEN

    async def read_project(self, on_unused: Callable[[str], None] = lambda reason: None) -> ProjectPrompt:
        """Read the project's instructions and the names of skills; `on_unused` receives why a file is not used."""
        self._project = project = await offload(lambda: read_project(self._runtime))
        for reason in project.instructions.unused:
            on_unused(reason)
        return project

    async def list_tools(self) -> list[ListedTool]:
        """Return the tools."""
        if self._tools is None:
            runtime = self._runtime
            tools = await offload(
                lambda: runtime.parts.authority.listed_tools(runtime.session, client_asks=self._asks_person)
            )
            self._tools = tools
            self._traits = {tool.name: tool.tool.traits for tool in tools}
            self._schema_characters = sum(len(str(tool.schema)) + len(tool.description) for tool in tools)
        return self._tools

    async def request(self, messages: Sequence[ModelMessage]) -> ModelInput:
        """Return the next request."""
        project = self._project or await self.read_project()
        tools = await self.list_tools()
        system = system_prompt(self._runtime, self._marks, project, tools, self._role)
        self._system_characters = len(system)
        return ModelInput(system, messages, [OfferedTool(tool.name, tool.description, tool.schema) for tool in tools])
