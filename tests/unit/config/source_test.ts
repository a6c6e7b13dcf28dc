import assert from "node:assert/strict";
import { readSource } from "../../../config/source.ts";
import { readWireAddress } from "../../../kpng/transport/address.ts";

const read = (source: string, flags: Record<string, unknown> = {}) =>
  readSource(new Map<string, unknown>([["source", source], ...Object.entries(flags)]));
const NO_TLS = { ca: undefined, crt: undefined, key: undefined };

Deno.test("every form of --source is read; the default is the API server", () => {
  assert.deepEqual(readSource(new Map()).source, { kind: "kube" });
  assert.deepEqual(read("file:a b.yaml").source, { kind: "file", path: "a b.yaml" });
  assert.deepEqual(read("state:/run/state.yaml").source, { kind: "state", path: "/run/state.yaml" });
  assert.deepEqual(read("grpc://relay-1.example:12090").source, {
    kind: "grpc",
    address: { kind: "tcp", host: "relay-1.example", port: 12090 },
    scope: "global",
    tls: NO_TLS,
  });
  assert.deepEqual(read("unix:///run/sluice.sock", { local: true, "api-client-tls-ca": "ca.pem" }).source, {
    kind: "grpc",
    address: { kind: "unix", path: "/run/sluice.sock" },
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
