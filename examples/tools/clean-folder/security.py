"""Says whether clean.py may run: blocked outside the workspace, allowed for the output of builds, else asked."""

import json
import os
import sys

MADE_BY_BUILDS = ("build", "dist", "target", ".cache")

given = json.load(sys.stdin)
root = os.path.realpath(given["workspacePath"])
folder = os.path.realpath(os.path.join(root, given["args"]["folder"]))
inside = os.path.relpath(folder, root)
is_outside = inside == "." or inside.split(os.sep)[0] == ".."
is_made = not is_outside and os.path.basename(folder) in MADE_BY_BUILDS
message = "The folder is not inside the workspace." if is_outside else f"Remove everything in {inside}?"
answer = {
    "allowed": is_made,
    "requiresApproval": not is_outside and not is_made,
    "permissionType": "folder_clean",
    "permissionKey": inside,
    "message": message,
}
print(json.dumps(answer))
