"""The workspaces of a server, each with its runtime and the jobs of the resident process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hilt.call import Call, Json, Result
from hilt.desk import jobs
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces import resident
from hilt.surfaces.http.problems import HttpProblem
from hilt.surfaces.oneshot import for_resident
from hilt.surfaces.oneshot import request as request_or_hand_over

SESSION = "console"  # of the calls that the person makes other than by /v1/call
BY = "console"  # who answers approvals and questions


class ServedWorkspace:
    """One workspace: its runtime, and how to reach the resident process for it."""

    def __init__(self, runtime: Runtime, options: dict[str, str]) -> None:
        self.runtime = runtime
        self.options = {**options, "workspace": runtime.parts.root}
        self.folders = [runtime.parts.root]  # of all workspaces that the server serves

    @property
    def uses_resident(self) -> bool:
        """Whether background jobs and agents run in the resident process."""
        return bool(self.runtime.settings["resident"] != "off")

    def is_for_resident(self, call: Call) -> bool:
        """Whether a call must run in the resident process."""
        return self.uses_resident and for_resident(self.runtime, call) is not None

    def request(self, call: Call) -> Result:
        """Run a call here, or in the resident process if it needs background jobs."""
        return request_or_hand_over(self.runtime, self.options, call)

    def ask_jobs(self, action: str, **fields: Json) -> dict[str, Any]:
        """Answer a request about the jobs of this process and of the resident process."""
        request = {"action": action, **fields}
        try:
            ours = jobs.answer(self.runtime.parts.jobs, request)
        except ToolError as error:
            if error.code != "not_found" or not self.uses_resident:
                raise
            theirs = self._ask_resident(request)
            if theirs is None:
                raise
            return theirs
        if action == "list" and self.uses_resident:
            ours["jobs"] += (self._ask_resident(request) or {"jobs": []})["jobs"]
        return ours

    def _ask_resident(self, request: dict[str, Json]) -> dict[str, Any] | None:
        answer = resident.ask_jobs({"workspace": self.runtime.parts.root}, request)
        if answer is not None and "error_code" in answer:
            raise ToolError(answer["error_code"], answer["error"], suggestion=answer["suggestion"])
        return answer

    def close(self) -> None:
        """Close the runtime."""
        self.runtime.close()


class Workspaces:
    """All workspaces of a server; the first is the default."""

    def __init__(self, served: Sequence[ServedWorkspace]) -> None:
        self.all = served
        self.first = served[0]
        for workspace in served:
            workspace.folders = [other.runtime.parts.root for other in served]

    def find(self, folder: Any) -> ServedWorkspace:
        """Return the workspace of a folder; the first one for None."""
        if folder is None:
            return self.first
        if isinstance(folder, str) and "\0" not in folder:
            real = os.path.realpath(folder) if os.path.isabs(folder) else folder
            for workspace in self.all:
                if real == workspace.runtime.parts.root:
                    return workspace
        roots = ", ".join(workspace.runtime.parts.root for workspace in self.all)
        raise HttpProblem(
            404, f"The workspace {str(folder)[:200]!r} is not served.", suggestion=f"Use one of: {roots}."
        )
