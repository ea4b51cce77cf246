import json
import os
import sqlite3
import sys
from urllib.parse import quote

request = json.load(sys.stdin)
name = request["database"]
# mode=ro needs a URI, so the name is quoted; it also keeps a missing file from being created
place = ":memory:" if name == ":memory:" else f"file:{quote(os.path.abspath(name))}?mode=ro"
try:
    with sqlite3.connect(place, uri=place != ":memory:") as database:
        # ATTACH would open other files, in any mode
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
        )
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)  # of one value
        cursor = database.execute(request["sql"], request["parameters"])
        columns = [column[0] for column in cursor.description or ()]
        fetched = cursor.fetchmany(request["limit"] + 1)
except sqlite3.Error as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
    sys.exit()
rows = [[f"<{len(value)} bytes>" if isinstance(value, bytes) else value for value in row] for row in fetched]
more = len(rows) > request["limit"]
rows = rows[: request["limit"]]
view = {
    "type": "table",
    "title": request["sql"],
    "columns": [{"key": str(number), "label": label} for number, label in enumerate(columns)],
    "rows": [{str(number): value for number, value in enumerate(row)} for row in rows],
}
print(json.dumps({"columns": columns, "rows": rows, "more": more, "_visualization": view}))
