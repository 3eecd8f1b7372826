"""Checks a compose file against the published schema, and that the schema can refuse.

Usage: compose_file.py FILE
"""

import copy
import importlib.util
import json
import pathlib
import sys

import jsonschema
import yaml

package = importlib.util.find_spec("compose").submodule_search_locations[0]
schema = json.loads((pathlib.Path(package) / "config" / "compose_spec.json").read_text())
file = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())
jsonschema.validate(file, schema)

wrong = copy.deepcopy(file)
next(iter(wrong["services"].values()))["prots"] = []
try:
    jsonschema.validate(wrong, schema)
except jsonschema.ValidationError:
    print("valid")
else:
    raise SystemExit("the schema refuses nothing")
