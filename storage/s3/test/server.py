#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An S3 server for unit tests, in memory, that does what it is told to do wrong.

server.py DIR [CERT KEY]: serves 127.0.0.1 (with TLS if a certificate is given), writes its port to
DIR/port and a line per request to DIR/log, and reads before each request

  DIR/options  words: page=N (keys a page), condition=no (501 for If-None-Match), checksum=no (501
               for x-amz-checksum-...) or checksum=ignored, skew=S (its clock is S seconds ahead),
               multiparts=no, silent=TEXT (no answer to a request with TEXT in its path)
  DIR/script   lines "COUNT METHOD REGEX ACTION [ARGUMENT...]": an action for the next COUNT
               requests in whose "path?query" the regex is found

It ends at the end of its standard input. It checks signatures by code of its own, not by the code
under test."""
import base64, hashlib, hmac, os, re, socket, ssl, struct, sys, threading, time
from datetime import datetime, timezone
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, quote
from xml.sax.saxutils import escape

ACCESS, SECRET, REGION, BUCKET = "lab:AK", "se/cr+et", "eu-1", "bucket"
DIR = sys.argv[1]
lock = threading.RLock()
objects, uploads = {}, {}


class Refusal(Exception):
    def __init__(self, status, code, message=""):
        self.status, self.code, self.message = status, code, message


def options():
    with open(f"{DIR}/options") as f:
        return dict(word.split("=") for word in f.read().split())


def fault_for(method, target):
    """The action of the first line in the script that matches; its count is decremented."""
    with lock:
        with open(f"{DIR}/script") as f:
            lines = f.read().splitlines()
        for i, line in enumerate(lines):
            count, verb, regex, *action = line.split()
            if int(count) > 0 and verb == method and re.search(regex, target):
                lines[i] = " ".join([str(int(count) - 1), verb, regex, *action])
                with open(f"{DIR}/script", "w") as f:
                    f.write("\n".join(lines))
                return action
    return None


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return base64.b64encode(struct.pack(">I", crc ^ 0xFFFFFFFF)).decode()


def etag(data):
    return "ETag", '"%s"' % hashlib.md5(data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def now(self):
        return time.time() + int(self.options.get("skew", 0))

    # ---- signatures -------------------------------------------------------------------------

    def signature(self, path, query):
        """By AWS's description: canonical request, string to sign, chain of keys."""
        names = query["X-Amz-SignedHeaders"].split(";")
        pairs = sorted((quote(k, safe="-._~"), quote(v, safe="-._~"))
                       for k, v in query.items() if k != "X-Amz-Signature")
        canonical = "\n".join([
            self.command, quote(path, safe="/-._~"), "&".join(f"{k}={v}" for k, v in pairs),
            *(f"{n}:{' '.join(self.headers[n].split())}" for n in names), "",
            ";".join(names), "UNSIGNED-PAYLOAD"])
        scope = query["X-Amz-Credential"].split("/", 1)[1]
        text = "\n".join(["AWS4-HMAC-SHA256", query["X-Amz-Date"], scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for part in scope.split("/") + [text]:
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()

    def check_signature(self, path, query):
        if "X-Amz-Signature" not in query:
            raise Refusal(403, "AccessDenied", "not signed")
        credential = query["X-Amz-Credential"].split("/")
        if credential[0] != ACCESS:
            raise Refusal(403, "InvalidAccessKeyId")
        if credential[2] != REGION:
            raise Refusal(400, "AuthorizationQueryParametersError", f"expecting '{REGION}'")
        signed = query["X-Amz-SignedHeaders"].split(";")
        for name in self.headers:
            if name.lower().startswith("x-amz-") and name.lower() not in signed:
                raise Refusal(403, "AccessDenied", f"{name} is not signed")
        if self.signature(path, query) != query["X-Amz-Signature"]:
            raise Refusal(403, "SignatureDoesNotMatch")
        made = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(
            tzinfo=timezone.utc).timestamp()
        if made > self.now() + 900:
            raise Refusal(403, "RequestTimeTooSkewed", "The difference is too large.")
        if made + int(query["X-Amz-Expires"]) < self.now():
            raise Refusal(403, "AccessDenied", "Request has expired")

    # ---- answers ----------------------------------------------------------------------------

    def answer(self, status, body=b"", headers=(), fault=None):
        self.log(status)
        self.send_response_only(status)
        self.send_header("Date", formatdate(self.now(), usegmt=True))
        if status != 204:
            self.send_header("Content-Length", headers and dict(headers).get("Content-Length")
                             or str(len(body)))
        for name, value in headers:
            if name != "Content-Length":
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "cut":
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            self.drop()
        elif fault == "drip":
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(1)
        else:
            self.wfile.write(body)

    def refuse(self, e, headers=()):
        body = f"<?xml version='1.0'?>\n<Error><Code>{e.code}</Code>" \
               f"<Message>{e.message}</Message></Error>"
        self.answer(e.status, body.encode(), headers)

    def drop(self):
        """End the connection at once, with a reset if bytes are unread."""
        self.close_connection = True
        try:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def log(self, what):
        with lock, open(f"{DIR}/log", "a") as f:
            f.write(f"{self.command} {self.path} {what}\n")

    # ---- requests ---------------------------------------------------------------------------

    def handle_one(self):
        self.options = options()
        body = b""
        silent = self.options.get("silent")
        fault = ["silence"] if silent and silent in self.path else \
            fault_for(self.command, self.path)
        if fault and fault[0] in ("drop", "silence", "early"):
            self.log(fault[0])
            if fault[0] == "silence":
                while self.connection.recv(65536):
                    pass
            if fault[0] == "early":
                self.close_connection = True
                return self.refuse(Refusal(int(fault[1]), fault[2], "too early to say"))
            return self.drop()
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        if fault and fault[0] == "status":
            extra = [("Retry-After", fault[3])] if len(fault) > 3 else []
            return self.refuse(Refusal(int(fault[1]), fault[2], "as\nscripted"), extra)
        if fault and fault[0] == "error200":
            return self.answer(200, f"<Error><Code>{fault[1]}</Code></Error>".encode())
        if fault and fault[0] == "garbage":
            self.log("garbage")
            self.wfile.write(b"this is no HTTP")
            return self.drop()
        if fault and fault[0] == "spoil":
            body = bytes([body[0] ^ 1]) + body[1:]
        if fault and fault[0] == "say":
            return self.answer(200, " ".join(fault[1:]).encode())
        try:
            status, data, headers = self.route(body)
        except Refusal as e:
            return self.refuse(e)
        if fault and fault[0] == "lost":
            self.log("lost")
            return self.drop()
        if fault and fault[0] == "flip":
            data = bytes([data[0] ^ 1]) + data[1:]
        if fault and fault[0] == "range":
            headers = [*headers, ("Content-Range", fault[1] + " 9-99/100")]
        if fault and fault[0] == "whole":
            status, headers = 200, [h for h in headers if h[0] != "Content-Range"]
        if fault and fault[0] == "more":
            data += b"more"
        if fault and "less" in fault:
            data = data[:len(data) // 2]
        self.answer(status, data, headers, fault and fault[0])

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

    def route(self, body):
        raw, _, text = self.path.partition("?")
        path = unquote(raw)
        query = dict((unquote(k), unquote(v)) for k, _, v in
                     (word.partition("=") for word in text.split("&")))
        self.check_signature(path, query)
        host = self.headers["Host"].split(":")[0]
        if host.startswith(BUCKET + "."):
            key = path[1:]
        else:
            bucket, _, key = path[1:].partition("/")
            if bucket != BUCKET:
                raise Refusal(404, "NoSuchBucket")
        with lock:
            if "uploads" in query or "uploadId" in query:
                return self.multipart(key, query, body)
            if not key:
                return self.list(query)
            return getattr(self, "on_" + self.command.lower())(key, body)

    def check_body(self, body):
        md5, crc = self.headers.get("Content-MD5"), self.headers.get("x-amz-checksum-crc32c")
        if md5 and base64.b64decode(md5) != hashlib.md5(body).digest():
            raise Refusal(400, "BadDigest")
        if crc and self.options.get("checksum") == "no":
            raise Refusal(501, "NotImplemented")
        if self.options.get("checksum") == "ignored":
            crc = None
        if crc and len(body) <= 65536 and crc != crc32c(body):
            raise Refusal(400, "XAmzContentChecksumMismatch")
        return [("x-amz-checksum-crc32c", crc)] if crc else []

    def on_put(self, key, body):
        if self.headers.get("If-None-Match"):
            if self.options.get("condition") == "no":
                raise Refusal(501, "NotImplemented")
            if key in objects:
                raise Refusal(412, "PreconditionFailed")
        checked = self.check_body(body)
        objects[key] = body
        return 200, b"", [etag(body), *checked]

    def on_get(self, key, _):
        if key not in objects:
            raise Refusal(404, "NoSuchKey")
        data = objects[key]
        if "Range" not in self.headers:
            return 200, data, [etag(data)]
        first, last = map(int, self.headers["Range"][len("bytes="):].split("-"))
        if first >= len(data):
            raise Refusal(416, "InvalidRange")
        part = data[first:last + 1]
        where = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        return 206, part, [etag(data), ("Content-Range", where)]

    def on_head(self, key, _):
        if key not in objects:
            raise Refusal(404, "NoSuchKey")
        return 200, b"", [etag(objects[key]), ("Content-Length", str(len(objects[key])))]

    def on_delete(self, key, _):
        objects.pop(key, None)
        return 204, b"", []

    def list(self, query):
        prefix, size = query["prefix"], int(self.options.get("page", 1000))
        entries = sorted({prefix + k[len(prefix):].partition("/")[0] +
                          ("/" if "/" in k[len(prefix):] else "")
                          for k in objects if k.startswith(prefix)})
        start = base64.b64decode(query.get("continuation-token", "")).decode()
        rest = [e for e in entries if e > start]
        page = rest[:size]
        out = ["<?xml version='1.0' encoding='UTF-8'?><ListBucketResult "
               "xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"]
        out += [f"<CommonPrefixes><Prefix>{escape(e)}</Prefix></CommonPrefixes>" if e.endswith("/")
                else f"<Contents><Key>{escape(e)}</Key><Size>1</Size></Contents>" for e in page]
        if len(rest) > size:
            token = base64.b64encode(page[-1].encode()).decode()
            out.append(f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}"
                       "</NextContinuationToken>")
        else:
            out.append("<IsTruncated>false</IsTruncated>")
        return 200, ("".join(out) + "</ListBucketResult>").encode(), []

    def multipart(self, key, query, body):
        if self.options.get("multiparts") == "no":
            raise Refusal(501, "NotImplemented")
        upload = query.get("uploadId")
        if self.command == "POST" and upload is None:
            upload = f"id/{len(uploads)}+&="
            uploads[upload] = (key, {})
            return 200, ("<InitiateMultipartUploadResult><UploadId>%s</UploadId>"
                         "</InitiateMultipartUploadResult>" % escape(upload)).encode(), []
        if self.command == "GET":
            items = "".join(f"<Upload><Key>{escape(k)}</Key>"
                            f"<UploadId>{escape(u)}</UploadId></Upload>"
                            for u, (k, _) in uploads.items() if k.startswith(query["prefix"]))
            return 200, ("<ListMultipartUploadsResult><Bucket>b</Bucket>" + items +
                         "</ListMultipartUploadsResult>").encode(), []
        if upload not in uploads or uploads[upload][0] != key:
            raise Refusal(404, "NoSuchUpload")
        parts = uploads[upload][1]
        if self.command == "PUT":
            self.check_body(body)
            tag = etag(body)
            parts[int(query["partNumber"])] = (tag[1], body)
            return 200, b"", [tag]
        if self.command == "POST":
            named = re.findall(r"<Part><PartNumber>(\d+)</PartNumber><ETag>(.*?)</ETag></Part>",
                               body.decode())
            if [(int(n), e) for n, e in named] != [(n, parts[n][0]) for n in sorted(parts)]:
                raise Refusal(400, "InvalidPart")
            objects[key] = b"".join(parts[n][1] for n in sorted(parts))
        del uploads[upload]
        return (204 if self.command == "DELETE" else 200), \
            b"" if self.command == "DELETE" else b"<CompleteMultipartUploadResult/>", []


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass


def main():
    for name in ("options", "script", "log"):
        open(f"{DIR}/{name}", "a").close()
    server = Server(("127.0.0.1", 0), Handler)
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with open(f"{DIR}/port.new", "w") as f:
        f.write(str(server.server_address[1]))
    os.rename(f"{DIR}/port.new", f"{DIR}/port")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


main()
