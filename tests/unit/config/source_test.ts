import assert from "node:assert/strict";
import { checkSourceFlags, readSource, sourceText } from "../../../config/source.ts";
import { readWireAddress, wireAddressText } from "../../../kpng/address/mod.ts";
import { accepted, refused } from "./parse.ts";

const read = (source: string, flags: Record<string, unknown> = {}) =>
  readSource(new Map<string, unknown>([["source", source], ...Object.entries(flags)]));
const NO_TLS = { ca: undefined, crt: undefined, key: undefined };

Deno.test("every form of --source is read; the default is the API server", () => {
  assert.deepEqual(readSource(new Map()).source, { kind: "kube" });
  assert.deepEqual(read("file:a b.yaml").source, { kind: "file", path: "a b.yaml" });
  assert.deepEqual(read("state:/run/state.yaml").source, { kind: "state", path: "/run/state.yaml" });
  assert.deepEqual(read("grpc://relay-1.example:12090").source, {
    kind: "grpc",
    addresses: [{ kind: "tcp", host: "relay-1.example", port: 12090 }],
    scope: "global",
    tls: NO_TLS,
  });
  assert.deepEqual(read("unix:///run/sluice.sock", { local: true, "api-client-tls-ca": "ca.pem" }).source, {
    kind: "grpc",
    addresses: [{ kind: "unix", path: "/run/sluice.sock" }],
    scope: "local",
    tls: { ...NO_TLS, ca: "ca.pem" },
  });
});

Deno.test("a flag that does not apply to the source is an error that names the sources it needs", () => {
  assert.match(read("relay:12090").errors.join(), /--source is "relay:12090": must be kube, file:PATH/);
  const { source, errors } = read("file:a", { local: true, "api-client-tls-key": "key.pem" });
  assert.equal(source, undefined);
  assert.deepEqual(errors.map((error) => error.split(":")[0]), [
    "--local needs a server as the source",
    "--api-client-tls-key needs a server as the source",
  ]);
});

Deno.test("--service-proxy-name is the value of a label, for a source with labels", () => {
  const check = (name: string, source: string) =>
    checkSourceFlags(new Map([["service-proxy-name", name]]), read(source).source).join();
  assert.deepEqual([check("edge-1", "kube"), check("edge-1", "file:a"), check("", "grpc://a:1")], ["", "", ""]);
  assert.match(check("edge 1", "kube"), /is "edge 1": must be the value of a label/);
  assert.match(check("a".repeat(64), "kube"), /at most 63 characters/);
  assert.match(check("edge", "grpc://a:1"), /needs the API server or manifests as the source/);
  assert.match(check("edge", "state:a"), /needs the API server or manifests as the source/);
});

Deno.test("--max-msg-size is a number of bytes, for a server as the source", () => {
  const check = (bytes: number, source: string) =>
    checkSourceFlags(new Map([["max-msg-size", bytes]]), read(source).source).join();
  assert.equal(check(1 << 20, "grpc://a:1"), "");
  assert.match(check(0, "grpc://a:1"), /--max-msg-size is 0: must be at least 1 byte/);
  assert.match(check(1 << 20, "kube"), /--max-msg-size needs a server as the source/);
});

Deno.test("server addresses in KPNG's format", () => {
  const tcp = (host: string, port: number) => ({ kind: "tcp", host, port });
  assert.deepEqual(readWireAddress("tcp://:12090"), tcp("", 12090));
  assert.deepEqual(readWireAddress("127.0.0.1:1"), tcp("127.0.0.1", 1));
  assert.deepEqual(readWireAddress("grpc://relay"), tcp("relay", 12090));
  assert.deepEqual(readWireAddress("grpc://[fd00::1]:80"), tcp("fd00::1", 80));
  assert.deepEqual(readWireAddress("unix:///run/a.sock"), { kind: "unix", path: "/run/a.sock" });
  for (
    const wrong of ["", "tcp://", "grpc://a:70000", "grpc://[nonsense]:1", "http://a:1", "grpc://a:1/x", "unix://"]
  ) {
    assert.equal(readWireAddress(wrong), undefined, wrong);
  }
});

Deno.test("several servers are separated by commas, in the order in which they are tried, and are printed as they are read", () => {
  const LISTS: Readonly<Record<string, readonly string[]>> = {
    "grpc://a:12090,b:1": ["a:12090", "b:1"],
    "grpc://a,grpc://b,[fd00::1]": ["a:12090", "b:12090", "[fd00::1]:12090"],
    "unix:///run/a.sock,unix:///run/b.sock": ["unix:///run/a.sock", "unix:///run/b.sock"],
    "grpc://a,unix:///run/b.sock,grpc://c": ["a:12090", "unix:///run/b.sock", "c:12090"],
  };
  for (const [text, servers] of Object.entries(LISTS)) {
    const { source } = read(text);
    assert.ok(source?.kind === "grpc", text);
    assert.deepEqual(source.addresses.map(wireAddressText), servers);
    assert.deepEqual(read(sourceText(source)).source, source);
  }
});

Deno.test("an invalid list of servers is an error that names the entry", () => {
  const WRONG: Readonly<Record<string, RegExp>> = {
    "grpc://a,,b": /--source is "grpc:\/\/a,,b": a server in the list is empty/,
    "grpc://a,": /a server in the list is empty/,
    "grpc://a,b:70000": /"b:70000" is not a server: must be HOST:PORT or unix:/,
    "grpc://a, b": /" b" is not a server/,
    "grpc://a,file:b": /"file:b" is not a server/,
    "grpc://a,b,a:12090": /a:12090 is in the list twice/,
    "unix:///run/a,b.sock": /"b.sock" needs grpc:\/\/ or unix:\/\/ in front \(commas separate servers\)/,
  };
  for (const [text, message] of Object.entries(WRONG)) assert.match(read(text).errors.join(), message, text);
});

Deno.test("--state-directory is off by default, and --state-delay, which can be 0, depends on the kernel", () => {
  const read = (...words: string[]) => {
    const { stateDirectory, stateDelayMs } = accepted(words).configuration;
    return [stateDirectory, stateDelayMs];
  };
  assert.deepEqual(read(), [undefined, undefined]);
  assert.deepEqual(read("--state-directory=", "--state-delay=0s"), [undefined, 0]);
  assert.deepEqual(read("--state-directory=/var/lib/sluice", "--state-delay=3s"), ["/var/lib/sluice", 3000]);
});

Deno.test("--container-runtime-endpoint is a socket, for the API server's kept state", () => {
  const kept = ["--state-directory=/var/lib/sluice"];
  const socket = (text: string, ...words: readonly string[]) =>
    accepted([`--container-runtime-endpoint=${text}`, ...words]).configuration.runtimeSocket;
  assert.equal(socket(""), undefined);
  assert.equal(socket("unix:///run/containerd/containerd.sock", ...kept), "/run/containerd/containerd.sock");
  assert.equal(socket("/run/crio/crio.sock", ...kept), "/run/crio/crio.sock");
  const WRONG: Readonly<Record<string, RegExp>> = {
    "tcp://10.0.0.1:1": /must be a unix socket: unix:\/\/\/run/,
    "npipe:////./pipe/containerd": /must be a unix socket/,
    "containerd.sock": /must be a unix socket/,
    "unix://": /must be a unix socket/,
  };
  for (const [text, message] of Object.entries(WRONG)) {
    assert.match(refused([`--container-runtime-endpoint=${text}`, ...kept]).join(), message, text);
  }
  const endpoint = "--container-runtime-endpoint=/run/crio/crio.sock";
  assert.match(refused([endpoint, ...kept, "--source=grpc://a:1"]).join(), /needs the API server as the source/);
  const unused = /--container-runtime-endpoint has no effect without --state-directory/;
  assert.match(accepted([endpoint]).warnings.join(), unused);
  assert.doesNotMatch(accepted([endpoint, ...kept]).warnings.join(), unused);
});

Deno.test("a source without conditions of Nodes leaves --node-condition without effect", () => {
  const unused = /--node-condition has no effect: only an API server as the source has Nodes with conditions/;
  assert.match(accepted(["--node-condition", "--source=grpc://a:1"]).warnings.join(), unused);
  assert.doesNotMatch(accepted(["--node-condition"]).warnings.join(), unused);
});
