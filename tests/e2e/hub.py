"""A hub on this machine, for tests: its addresses, its answers, its faults.

Two servers on loopback: the hub itself and the storage that it redirects large
files to. A repository is a Repo; what goes wrong with it is its `fault`, so that
the program under test needs no switch.

    hub = Hub()
    hub.add(Repo("t/plain", {"config.json": b"..."}))
    run(..., env=hub.env(folder))
"""
import base64
import functools
import hashlib
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LFS_BYTES = 4096  # larger files are kept outside of git
TRICKLE = 65536


@functools.lru_cache(64)  # large files are asked for often
def sha256(data):
    return hashlib.sha256(data).hexdigest()


@functools.lru_cache(64)
def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    def __init__(self, name, files, fault="", **kw):
        self.name, self.files, self.fault = name, dict(files), fault
        self.kw = kw
        self.old = {}  # earlier commits: sha -> files
        self.tries = {}  # of a request, so that a fault can end

    def sha(self):
        h = hashlib.sha1()
        for path in sorted(self.files):
            h.update(path.encode() + b"\0" +
                     sha256(self.files[path]).encode())
        return h.hexdigest()

    def change(self, path, data):
        """A new commit."""
        self.old[self.sha()] = dict(self.files)
        self.files[path] = data

    def at(self, rev):
        """The files of a commit, or None."""
        if rev == self.sha() or rev == "main":
            return self.files
        return self.old.get(rev)

    def is_lfs(self, path, data):
        return len(data) > LFS_BYTES

    def count(self, key):
        self.tries[key] = self.tries.get(key, 0) + 1
        return self.tries[key]


class Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # or each reply waits for an ACK
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def do_HEAD(self):
        self.do_GET()

    def send(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length",
                         str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code="", text="no"):
        self.send(status, json.dumps({"error": text}).encode(),
                  [("X-Error-Code", code), ("X-Error-Message", text)])

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        hub = self.server.hub
        with hub.mu:
            hub.log.append((self.server.role, self.command, self.path,
                            dict(self.headers)))
        if self.server.role == "storage":
            self.storage(hub, url)
        else:
            self.front(hub, url)

    # ------------------------------------------------------------ pushing

    def do_PUT(self):
        """An object for the storage."""
        hub = self.server.hub
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with hub.mu:
            hub.log.append((self.server.role, "PUT", self.path,
                            dict(self.headers)))
            if "Authorization" in self.headers:
                hub.leaks.append(self.path)
            hub.objects[sha256(data)] = data
        self.send(200)

    def do_POST(self):
        hub = self.server.hub
        data = self.rfile.read(int(self.headers["Content-Length"]))
        path = urllib.parse.urlsplit(self.path).path
        with hub.mu:
            hub.log.append((self.server.role, "POST", self.path,
                            dict(self.headers)))
        if self.headers.get("Authorization") != "Bearer good":
            return self.refuse(403, "", "the token may not write")
        if path == "/api/repos/create":
            j = json.loads(data)
            name = f"{j['organization']}/{j['name']}"
            if name in hub.repos:
                return self.refuse(409)
            hub.add(Repo(name, {".gitattributes": b"* text\n"},
                         private=j["private"]))
            return self.send(200, b'{"url": "x"}')
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = []
            for o in json.loads(data)["objects"]:
                if o["oid"] not in hub.objects:
                    o["actions"] = {
                        "upload": {"href": f"{hub.store_url}/lfs/{o['oid']}"},
                        "verify": {"href": f"{hub.url}/lfs/verify"}}
                objects.append(o)
            return self.send(200, json.dumps({"objects": objects}).encode())
        if path == "/lfs/verify":
            there = json.loads(data)["oid"] in hub.objects
            return self.send(200) if there else self.refuse(422)
        parts = path.split("/")
        repo = hub.repos.get("/".join(parts[3:5]))
        if repo is None:
            return self.refuse(404, "RepoNotFound")
        if parts[5] == "preupload":
            files = [{"path": f["path"], "shouldIgnore": False,
                      "uploadMode": "lfs" if f["size"] > LFS_BYTES
                      else "regular"} for f in json.loads(data)["files"]]
            for f in json.loads(data)["files"]:
                assert base64.b64decode(f["sample"]) is not None
            return self.send(200, json.dumps({"files": files}).encode())
        self.commit(hub, repo, [json.loads(s) for s in data.splitlines()])

    def commit(self, hub, repo, lines):
        head, files = lines[0]["value"], dict(repo.files)
        if repo.fault == "moves":  # somebody else was faster
            repo.fault = ""
            repo.change("other.txt", b"theirs")
        if head["parentCommit"] != repo.sha():
            return self.refuse(412, "", "the branch has moved")
        for line in lines[1:]:
            v = line["value"]
            if line["key"] == "file":
                files[v["path"]] = base64.b64decode(v["content"])
            elif line["key"] == "lfsFile":
                files[v["path"]] = hub.objects[v["oid"]]
            else:
                del files[v["path"]]
        repo.old[repo.sha()] = dict(repo.files)
        repo.files = files
        self.send(200, json.dumps({"commitOid": repo.sha()}).encode())

    # ------------------------------------------------------------ the hub

    def front(self, hub, url):
        parts = url.path.split("/")
        if url.path == "/api/whoami-v2":
            if self.headers.get("Authorization") == "Bearer good":
                self.send(200, b'{"name": "tester"}')
            else:
                self.refuse(401)
            return
        if url.path == "/api/models":
            found = [{"id": r.name, "tags": [], "downloads": 1, "likes": 0,
                      "lastModified": "2026-10-01T00:00:00.000Z"}
                     for r in hub.repos.values()
                     if urllib.parse.parse_qs(url.query).get("search", [""])[0] in
                     r.name]
            self.send(200, json.dumps(found).encode())
            return
        if url.path.startswith("/api/models/") and len(parts) >= 7:
            repo = hub.repos.get("/".join(parts[3:5]))
            rev = urllib.parse.unquote("/".join(parts[6:]))
            self.api(hub, repo, "/".join(parts[3:5]), parts[5], rev, url)
            return
        if len(parts) >= 6 and parts[3] == "resolve":
            repo = hub.repos.get("/".join(parts[1:3]))
            path = urllib.parse.unquote("/".join(parts[5:]))
            files = repo.at(parts[4]) if repo else None
            if files is None or path not in files:
                self.refuse(404, "EntryNotFound")
                return
            rev = parts[4] if parts[4] in repo.old else repo.sha()
            self.resolve(hub, repo, rev, path, files[path])
            return
        self.refuse(404, "RepoNotFound")

    def api(self, hub, repo, name, what, rev, url):
        if name == "t/old":  # renamed
            self.send(307, b"", [("Location", url.path.replace(
                "t/old", "t/relredir"))])
            return
        if repo is None:
            self.refuse(401, "RepoNotFound")
            return
        f, token = repo.fault, self.headers.get("Authorization")
        if f == "private" and token != "Bearer good":
            return self.refuse(401)
        if f == "gated":
            return self.refuse(403, "GatedRepo")
        if f == "gated401":
            return self.refuse(401, "GatedRepo")
        if f == "scope":
            return self.refuse(403, "", "token lacks read scope")
        if f == "endless":
            self.send_response(403)
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
            while True:  # until nobody listens
                self.wfile.write(b"nothing " * 8192)
        if f == "503":
            repo.count("503")
            return self.refuse(503)
        if f == "429" and repo.count("429") <= 2:
            late = [("Retry-After", "1")] if repo.tries["429"] == 1 else \
                [("RateLimit", '"api";r=0;t=1')]
            return self.send(429, b"", late)
        if f == "loop":
            return self.send(302, b"", [("Location", self.path)])
        if f == "skew" and repo.count("skew") == 1:
            return self.send(503, b"", [
                ("Retry-After", "Thu, 01 Jan 1998 00:00:00 GMT")])
        files = repo.at(rev)
        if files is None:
            return self.refuse(404, "RevisionNotFound")
        sha = rev if rev in repo.old else repo.sha()
        if what == "revision":
            if f == "notjson":
                return self.send(200, b"<html>")
            if f == "badsha1":
                return self.send(200, b'{"sha": "../../x"}')
            return self.send(200, json.dumps(
                {"id": repo.name, "sha": sha, "private": f == "private",
                 "gated": False,
                 "siblings": [{"rfilename": p} for p in files]}).encode())
        self.tree(hub, repo, files, url)

    def tree(self, hub, repo, files, url):
        entries = [{"type": "directory", "path": "sub", "size": 0,
                    "oid": "0" * 40}]
        for path, data in files.items():
            e = {"type": "file", "path": path, "size": len(data),
                 "oid": git_sha1(data)}
            if repo.is_lfs(path, data):
                e["oid"] = "1" * 40
                e["lfs"] = {"oid": sha256(data), "size": len(data),
                            "pointerSize": 134}
            entries.append(e)
        if repo.fault == "symlink":
            entries.append({"type": "symlink", "path": "x", "size": 1,
                            "oid": git_sha1(b"x")})
        for path in repo.kw.get("evil", []):
            entries.append({"type": "file", "path": path, "size": 1,
                            "oid": git_sha1(b"x")})
        if repo.fault == "hugejson":
            for e in entries:
                if e["path"] == "serve_bundle.json":
                    e["size"] = e["lfs"]["size"] = 100 << 20
        if repo.fault == "moved":
            # The branch moves between the listing and the download.
            repo.change("model.safetensors",
                        b"new" * (len(files["model.safetensors"]) // 3))
        headers = []
        if repo.fault in ("pages", "otherpage"):
            query = urllib.parse.parse_qs(url.query)
            at = int(query.get("cursor", ["0"])[0])
            if at + 1000 < len(entries):
                host = hub.url if repo.fault == "pages" else "http://127.0.0.2:1"
                nxt = f"{host}{url.path}?recursive=true&cursor={at + 1000}"
                headers = [("Link", f'<{nxt}>; rel="next"')]
            entries = entries[at:at + 1000]
        self.send(200, json.dumps(entries).encode(), headers)

    def resolve(self, hub, repo, rev, path, data):
        f = repo.fault
        etag = sha256(data) if repo.is_lfs(path, data) else git_sha1(data)
        head = [("X-Repo-Commit", rev)]
        if f == "weak":
            return self.body(repo, path, data,
                             head + [("ETag", f'W/"{etag}"')])
        if f == "etagname":
            return self.body(repo, path, data,
                             head + [("ETag", '"/../../x"')])
        if f == "othercommit":
            return self.body(repo, path, data,
                             [("X-Repo-Commit", "2" * 40)])
        if not repo.is_lfs(path, data):
            return self.body(repo, path, data,
                             head + [("ETag", f'"{etag}"')])
        if f == "missing":
            return self.refuse(404, "EntryNotFound")
        if f == "linked":
            etag = "3" * 64
        if f == "halfway" and repo.count("asked") > 1:
            head, etag = [("X-Repo-Commit", "2" * 40)], "4" * 64
        to = f"{hub.store_url}/{repo.name}/{rev}/{path}?X-Amz-Signature=secret"
        if f == "evilredir":
            to = repo.kw["to"]
        if f == "privredir":
            to = to.replace("127.0.0.1", "localhost")
        self.send(302, b"", head + [
            ("Location", to), ("X-Linked-Etag", f'"{etag}"'),
            ("ETag", '"pointer"'), ("X-Linked-Size",
                                str(len(data) + (f == "othersize")))])

    # -------------------------------------------------------- the storage

    def storage(self, hub, url):
        parts = url.path.split("/")
        repo = hub.repos["/".join(parts[1:3])]
        path = urllib.parse.unquote("/".join(parts[4:]))
        data = repo.at(parts[3])[path]
        if "Authorization" in self.headers:
            hub.leaks.append(self.path)
        self.body(repo, path, data, [("ETag", '"0a1b-4"')])

    def body(self, repo, path, data, headers):
        """The bytes, with what the fault does to them."""
        f, big = repo.fault, repo.is_lfs(path, data)
        n = repo.count(path)
        at, status = 0, 200
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and f not in ("norange",):
            at, status = int(asked[6:].rstrip("-")), 206
            if f == "416" and repo.count("was416") == 1:
                at = len(data)
        if at >= len(data) > 0:
            return self.send(416, b"", [("Content-Range",
                                         f"bytes */{len(data)}")])
        if not big:
            f = f if f in ("weak", "gzip") else ""
        if f == "gzip":
            headers = headers + [("Content-Encoding", "gzip")]
        if f == "badsha" or (f == "badonce" and n == 1):
            data = bytes([data[0] ^ 1]) + data[1:]
        total = len(data)
        if status == 206:
            first = at + 1 if f == "badrange" else at
            headers = headers + [("Content-Range",
                                  f"bytes {first}-{total - 1}/{total}")]
        body = memoryview(data)[at:]  # copies of large files are dear
        if f == "long":
            body = bytes(body) + b"more"
        if f == "short":
            body = body[:len(body) // 2]
        length = len(body)
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.stream(repo, f, n, at, body)

    def stream(self, repo, f, n, at, body):
        hub = self.server.hub
        cut = None
        if f in ("cut", "norange", "416", "badrange", "halfway") and n == 1:
            cut = len(body) // 2
        if f == "quarters" and n <= 3:
            cut = len(body) // 4 + 1
        if f == "stall" and n == 1 and len(body) > 1 << 20:
            cut = 1 << 20
        if f == "never":
            cut = 0
        pace = repo.kw.get("pace", 0)  # seconds per TRICKLE bytes
        step = TRICKLE if pace else 1 << 20
        end = len(body) if cut is None else cut
        for i in range(0, end, step):
            piece = body[i:min(i + step, end)]
            self.wfile.write(piece)
            with hub.mu:
                hub.served += len(piece)
            if pace:
                self.wfile.flush()
                time.sleep(pace)
        if cut is not None:
            self.wfile.flush()
            if f == "stall":
                hub.release.wait(20)
            self.close_connection = True
            self.connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *a):
        pass


class Hub:
    def __init__(self):
        self.repos, self.log, self.leaks, self.served = {}, [], [], 0
        self.objects = {}  # of git-lfs, by digest
        self.mu = threading.Lock()
        self.release = threading.Event()
        self.servers = []
        for role in ("hub", "storage"):
            s = Server(("127.0.0.1", 0), Handler)
            s.role, s.hub = role, self
            threading.Thread(target=s.serve_forever, daemon=True).start()
            self.servers.append(s)
        self.url, self.store_url = (f"http://127.0.0.1:{s.server_port}"
                                    for s in self.servers)

    def add(self, repo):
        self.repos[repo.name] = repo
        return repo

    def asked(self, word, role=None):
        """Requests whose address has the word."""
        with self.mu:
            return [r for r in self.log
                    if word in r[2] and (role is None or r[0] == role)]

    def env(self, folder, **kw):
        """Variables for a program with a fresh cache below `folder`."""
        e = {"HF_ENDPOINT": self.url, "HF_HOME": f"{folder}/hf",
             "XDG_DATA_HOME": f"{folder}/data", "HOME": str(folder),
             "XDG_RUNTIME_DIR": f"{folder}/run",
             "HF_HUB_DOWNLOAD_TIMEOUT": "60", "HF_HUB_ETAG_TIMEOUT": "10"}
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
                     "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH",
                     "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
                     "XDG_CACHE_HOME", "http_proxy", "https_proxy",
                     "all_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            e[name] = ""
        e.update({k: str(v) for k, v in kw.items()})
        return e

    def close(self):
        self.release.set()
        for s in self.servers:
            s.shutdown()
            s.server_close()
