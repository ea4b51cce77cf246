import csv
import json
import os
import sys

request = json.load(sys.stdin)
encoding = os.environ.get("CSV_ENCODING", "utf-8-sig")
try:
    with open(request["path"], newline="", encoding=encoding, errors="replace") as file:
        reader = csv.reader(file, delimiter=request["delimiter"])
        columns = next(reader, [])
        rows, total = [], 0
        for row in reader:
            if total < request["rows"]:
                rows.append(row)
            total += 1
except (OSError, csv.Error) as error:
    print(json.dumps({"error": str(error)}))
    sys.exit()
view = {
    "type": "table",
    "title": request["path"],
    # keys are numbers: a file may have two columns with the same name
    "columns": [{"key": str(number), "label": name} for number, name in enumerate(columns)],
    "rows": [{str(number): cell for number, cell in enumerate(row)} for row in rows],
    "totalRows": total,
}
print(json.dumps({"columns": columns, "rows": rows, "total": total, "_visualization": view}))
