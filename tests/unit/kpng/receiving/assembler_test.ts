import assert from "node:assert/strict";
import { serviceKey } from "../../../../core/tracking/service_key.ts";
import { assembleSlices, type ReceivedEndpoint } from "../../../../kpng/receiving/assemble_slices.ts";
import { createAssembler } from "../../../../kpng/receiving/assembler.ts";
import { readGlobalEndpoint } from "../../../../kpng/receiving/mod.ts";
import { createRecordingSink } from "../../../fakes/kpng.ts";

const SERVICE = {
  namespace: "default",
  name: "web",
  type: "ClusterIP",
  ips: { clusterIPs: { v4: ["10.96.0.1"], v6: [] } },
  ports: [{ name: "http", protocol: 1, port: 80, targetPort: 8080 }],
};

function endpointAt(address: string): ReceivedEndpoint {
  const info = {
    namespace: "default",
    serviceName: "web",
    sourceName: "web",
    endpoint: { ips: { v4: [address], v6: [] } },
    conditions: { ready: true },
  };
  const endpoint = readGlobalEndpoint(info, { inFull: false, problem: (what) => assert.fail(what) });
  assert.equal(endpoint?.service, serviceKey("default", "web"));
  return endpoint!;
}

Deno.test("slices assembled ahead are reported with the round, and not assembled again", () => {
  const sink = createRecordingSink();
  const assembler = createAssembler(sink, false);
  let reads = 0;
  const endpoint = endpointAt("10.180.0.1");
  assembler.setService("web", SERVICE);
  assembler.setEndpoint("web/0", {
    ...endpoint,
    get endpoints() {
      reads++;
      return endpoint.endpoints;
    },
  });
  assembler.assemble("web");
  assert.deepEqual(sink.take(), []);
  const before = reads;
  assert.notEqual(before, 0);
  assembler.sync();
  assert.equal(reads, before);
  assert.equal(
    sink.take().filter((line) => line.startsWith("set EndpointSlice") && line.includes("10.180.0.1")).length,
    1,
  );
});

Deno.test("a slice has the time of the latest change of its endpoints", () => {
  const at = (address: string, triggerTimeMs: number) => ({ ...endpointAt(address), triggerTimeMs });
  const timesOf = (...received: readonly ReceivedEndpoint[]) => [
    ...assembleSlices({ namespace: "default", name: "web" }, undefined, received, new Map()).values()
      .map(({ triggerTimeMs }) => triggerTimeMs),
  ];
  const [one, two, three] = [at("10.180.0.1", 5), at("10.180.0.2", 9), at("10.180.0.3", 7)];
  assert.deepEqual(timesOf(one, two, three), [9]);
  assert.deepEqual(timesOf(two, one), [9]);
  assert.deepEqual(timesOf(one, { ...two, slice: "web-2" }), [5, 9]);
});

Deno.test("the endpoints of a deleted service are reported when it returns", () => {
  const sink = createRecordingSink();
  const assembler = createAssembler(sink, false);
  assembler.setService("web", SERVICE);
  assembler.setEndpoint("web/0", endpointAt("10.180.0.1"));
  assembler.sync();
  const slices = () => sink.take().filter((line) => line.startsWith("set EndpointSlice"));
  const first = slices();
  assert.equal(first.length, 1);
  assembler.delete("Service", "web");
  assembler.sync();
  sink.take();
  assembler.setService("web", SERVICE);
  assembler.sync();
  assert.deepEqual(slices(), first);
});

Deno.test("a deleted endpoint can return before its service", () => {
  const sink = createRecordingSink();
  const assembler = createAssembler(sink, false);
  assembler.setEndpoint("web/0", endpointAt("10.180.0.1"));
  assembler.sync();
  const first = sink.take();
  assembler.delete("endpoint", "web/0");
  assembler.sync();
  sink.take();
  assembler.setEndpoint("web/0", endpointAt("10.180.0.1"));
  assembler.sync();
  assert.deepEqual(sink.take(), first.filter((line) => !line.startsWith("synced")));
});

Deno.test("a change in a round after the slices were assembled counts", () => {
  const sink = createRecordingSink();
  const assembler = createAssembler(sink, false);
  assembler.setService("web", SERVICE);
  assembler.setEndpoint("web/0", endpointAt("10.180.0.1"));
  assembler.assemble("web");
  assembler.setEndpoint("web/1", endpointAt("10.180.0.2"));
  assembler.sync();
  assert.equal(sink.take().filter((line) => /^set EndpointSlice .*10\.180\.0\.1.*10\.180\.0\.2/.test(line)).length, 1);
  assembler.setEndpoint("web/1", endpointAt("10.180.0.3"));
  assembler.assemble("web");
  assembler.delete("Service", "web");
  assembler.delete("endpoint", "web/0");
  assembler.delete("endpoint", "web/1");
  assembler.sync();
  assert.deepEqual(sink.take().map((line) => line.split(" ").slice(0, 2).join(" ")), [
    "delete EndpointSlice",
    "delete Service",
  ]);
  // The service is gone.
  assembler.assemble("web");
  assembler.sync();
  assert.deepEqual(sink.take(), []);
});

Deno.test("the problems of an entry end with it, or with a round that sets everything else again", () => {
  const scopes = new Set<string>();
  const problems = (scope: string, list: readonly unknown[]) =>
    void (list.length > 0 ? scopes.add(scope) : scopes.delete(scope));
  const assembler = createAssembler({ ...createRecordingSink(), problems }, false);
  const setBroken = (path: string) =>
    assembler.setEndpoint(path, undefined, { subject: path, sentences: ["it has no address"] });
  for (const path of ["deleted", "missing", "stays"]) setBroken(path);
  assembler.sync();
  assembler.delete("endpoint", "deleted");
  assert.deepEqual([...scopes], ["received endpoint missing", "received endpoint stays"]);
  assembler.reset();
  setBroken("stays");
  assembler.sync();
  assert.deepEqual([...scopes], ["received endpoint stays"]);
});
