"""Decide whether clean.py may run: deny outside the workspace, allow build folders, otherwise ask."""

import json
import os
import sys

BUILD_FOLDERS = ("build", "dist", "target", ".cache")

request = json.load(sys.stdin)
root = os.path.realpath(request["workspacePath"])
folder = os.path.realpath(os.path.join(root, request["args"]["folder"]))
relative = os.path.relpath(folder, root)
is_outside = relative == "." or relative.split(os.sep)[0] == ".."
is_build = not is_outside and os.path.basename(folder) in BUILD_FOLDERS
message = "The folder is not inside the workspace." if is_outside else f"Delete everything in {relative}?"
answer = {
    "allowed": is_build,
    "requiresApproval": not is_outside and not is_build,
    "permissionType": "folder_clean",
    "permissionKey": relative,
    "message": message,
}
print(json.dumps(answer))
