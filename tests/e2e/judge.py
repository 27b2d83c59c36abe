"""A small judge of JSON Schema that knows nothing of grammars.

It takes what the tests send and is no validator for others: references lead to
$defs, patterns mean the same in Python. With SL_TEST_JSONSCHEMA set, the package
`jsonschema` has to agree.
"""
import datetime
import os
import re

if os.environ.get("SL_TEST_JSONSCHEMA"):
    import jsonschema
else:
    jsonschema = None

HOST = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


def is_date(v):
    try:
        return bool(datetime.date.fromisoformat(v)) and len(v) == 10
    except ValueError:
        return False


def is_time(v):
    m = re.fullmatch(r"(\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", v)
    try:
        return bool(m and datetime.time.fromisoformat(m[1]))
    except ValueError:
        return False


FORMATS = {
    "date": is_date,
    "time": is_time,
    "date-time": lambda v: v[10:11] == "T" and is_date(v[:10])
    and is_time(v[11:]),
    "uuid": lambda v: re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}"
                                   r"-[0-9a-f]{12}", v),
    "ipv4": lambda v: re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){3}", v)
    and all(int(x) < 256 for x in v.split(".")),
    "email": lambda v: re.fullmatch(rf"[\w.+-]+@{HOST}(\.{HOST})*", v),
    "hostname": lambda v: re.fullmatch(rf"{HOST}(\.{HOST})*", v),
}


def same(a, b):
    """Equal as JSON: true is not 1, 1 is 1.0."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def is_type(t, v):
    number = isinstance(v, (int, float)) and not isinstance(v, bool)
    return {"object": isinstance(v, dict), "array": isinstance(v, list),
            "string": isinstance(v, str), "null": v is None,
            "integer": number and v == int(v), "number": number,
            "boolean": isinstance(v, bool)}[t]


def good_object(s, v, root):
    names = s.get("propertyNames", True)
    for k, x in v.items():
        known = [s["properties"][k]] if k in s.get("properties", {}) else []
        known += [p for r, p in s.get("patternProperties", {}).items()
                  if re.search(r, k)]
        if not known and "additionalProperties" in s:
            known = [s["additionalProperties"]]
        if not all(good(p, x, root) for p in known) or not good(names, k, root):
            return False
    need = list(s.get("required", []))
    for k, others in s.get("dependentRequired", {}).items():
        need += others if k in v else []
    return (all(k in v for k in need) and
            s.get("minProperties", 0) <= len(v) <= s.get("maxProperties", 9e9))


def good_array(s, v, root):
    first = s.get("prefixItems", [])
    rest = s.get("items", True)
    twice = any(same(a, b) for i, a in enumerate(v) for b in v[:i])
    return (s.get("minItems", 0) <= len(v) <= s.get("maxItems", 9e9) and
            all(good(first[i] if i < len(first) else rest, x, root)
                for i, x in enumerate(v)) and
            not (s.get("uniqueItems") and twice) and
            ("contains" not in s or
             any(good(s["contains"], x, root) for x in v)))


def good_string(s, v):
    return (s.get("minLength", 0) <= len(v) <= s.get("maxLength", 9e9) and
            re.search(s.get("pattern", ""), v) is not None and
            (s.get("format") not in FORMATS or bool(FORMATS[s["format"]](v))))


def good_number(s, v):
    return (s.get("minimum", v) <= v <= s.get("maximum", v) and
            s.get("exclusiveMinimum", v - 1) < v and
            v < s.get("exclusiveMaximum", v + 1) and
            v % s.get("multipleOf", v or 1) == 0)


def good_parts(s, v, root):
    """The schemas inside that speak of the same value."""
    if "$ref" in s and not good(root["$defs"][s["$ref"].split("/")[-1]], v,
                                root):
        return False
    if not all(good(x, v, root) for x in s.get("allOf", [])):
        return False
    if "anyOf" in s and not any(good(x, v, root) for x in s["anyOf"]):
        return False
    if "oneOf" in s and sum(good(x, v, root) for x in s["oneOf"]) != 1:
        return False
    if "not" in s and good(s["not"], v, root):
        return False
    if "if" not in s:
        return True
    return good(s.get("then" if good(s["if"], v, root) else "else", True), v,
                root)


def good(s, v, root):
    if isinstance(s, bool):
        return s
    types = s.get("type", [])
    if types and not any(is_type(t, v) for t in
                         (types if isinstance(types, list) else [types])):
        return False
    if "enum" in s and not any(same(x, v) for x in s["enum"]):
        return False
    if "const" in s and not same(s["const"], v):
        return False
    if not good_parts(s, v, root):
        return False
    if isinstance(v, dict):
        return good_object(s, v, root)
    if isinstance(v, list):
        return good_array(s, v, root)
    if isinstance(v, str):
        return good_string(s, v)
    return not is_type("number", v) or good_number(s, v)


def valid(s, v):
    mine = good(s, v, s)
    if jsonschema:
        check = jsonschema.Draft202012Validator(
            s,
            format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        if check.is_valid(v) != mine:
            raise AssertionError(f"the judges differ: {s} {v!r} {mine}")
    return mine
