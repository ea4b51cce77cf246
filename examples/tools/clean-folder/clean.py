import json
import os
import shutil
import sys

request = json.load(sys.stdin)
root = os.path.realpath(request["workspacePath"])
folder = os.path.realpath(os.path.join(root, request["folder"]))
# checked again: the folder may have become a link since the security check
if os.path.commonpath([root, folder]) != root or not os.path.isdir(folder):
    print(json.dumps({"error": f"{request['folder']} is not a folder"}))
    sys.exit()
removed = 0
with os.scandir(folder) as entries:
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
        removed += 1
print(json.dumps({"removed": removed}))
