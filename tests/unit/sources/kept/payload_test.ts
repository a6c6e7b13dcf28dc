import assert from "node:assert/strict";
import { lineOf, objectOfLine } from "../../../../sources/kept/payload.ts";
import { packObjects, unpackObjects } from "../../../../sources/kept/payload.ts";
import type { ClusterObject } from "../../../../core/objects/mod.ts";
import { systemClock } from "../../../../platform/mod.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";

const OBJECTS: readonly ClusterObject[] = [
  node("here", { zone: "a", addresses: ["10.1.0.1", "fd00::1"], podCIDRs: ["10.244.1.0/24"], leaving: true }),
  { kind: "ServiceCIDR", name: "kubernetes", cidrs: ["10.96.0.0/12"] },
  service("default/web", {
    type: "LoadBalancer",
    externalIPs: ["192.0.2.1"],
    loadBalancerIPs: ["192.0.2.2"],
    affinitySeconds: 10800,
    sourceRanges: ["192.0.2.0/24"],
    externalPolicyLocal: true,
    healthCheckNodePort: 30000,
    createdSeconds: 1_700_000_000,
    isClusterDNS: true,
    own: { nodePortAddresses: "192.168.1.0/24, nonsense" },
  }),
  endpointSlice("default/web-1", [
    endpoint("10.244.1.1", { zone: "a", zoneHints: ["a", "b"], nodeHints: ["here"] }),
    endpoint("10.244.2.1", { ready: false, terminating: true }),
    endpoint("10.244.1.2", { pod: { namespace: "default", name: "web-1", uid: "u1" } }),
  ]),
];

Deno.test("objects of every kind come back as they were", async () => {
  const { payload } = await packObjects(OBJECTS, systemClock);
  assert.equal(JSON.stringify(await unpackObjects(payload, systemClock)), JSON.stringify(OBJECTS));
});

Deno.test("thousands of objects come back in several pieces", async () => {
  const many = Array.from({ length: 3000 }, (_, i) => endpointSlice(`default/web-${i}`, [endpoint(`10.244.0.${i}`)]));
  const { payload } = await packObjects(many, systemClock);
  assert.deepEqual((await unpackObjects(payload, systemClock)).length, 3000);
});

Deno.test("the time of a change and details are not kept", () => {
  const changed = endpointSlice("default/web-1", [], { triggerTimeMs: 5, origin: { source: "x" } });
  assert.deepEqual(objectOfLine(lineOf(changed)), endpointSlice("default/web-1", []));
});

Deno.test("an object of another shape is refused", () => {
  const line = (fields: object) => JSON.stringify({ ...OBJECTS[2], ...fields });
  objectOfLine(line({}));
  const wrong = [
    { kind: "Ingress" },
    { kind: "__proto__" },
    { name: 1 },
    { type: "Other" },
    { clusterIPs: "10.0.0.1" },
    { ports: [null] },
    { ports: [{ name: "", protocol: "TCP", port: 1, nodePort: 0 }] },
    { ports: [{ name: "", protocol: "tcp", port: -1, nodePort: 0 }] },
    { ignored: undefined },
    { affinitySeconds: 1.5 },
    { createdSeconds: "2023-11-14T22:13:20Z" },
    { own: { nodePortAddresses: ["192.168.1.0/24"] } },
  ];
  for (const fields of wrong) {
    assert.throws(
      () => objectOfLine(line(fields)),
      /^Error: (Service with an invalid field|an object of an unknown kind)/,
      line(fields),
    );
  }
  assert.throws(() => objectOfLine("null"), /unknown kind/);
});

Deno.test("a payload whose last line is incomplete is refused", async () => {
  const cut = new Response(new Blob(['{"kind":"Node"']).stream().pipeThrough(new CompressionStream("gzip")));
  await assert.rejects(unpackObjects(await cut.bytes(), systemClock), /incomplete/);
});

Deno.test("a line without an end is refused after 16 MiB", async () => {
  const endless = ReadableStream.from(Array.from({ length: 64 }, () => new Uint8Array(2 ** 20).fill(0x20)));
  const payload = await new Response(endless.pipeThrough(new CompressionStream("gzip"))).bytes();
  await assert.rejects(unpackObjects(payload, systemClock), /a line of more than 16 MiB/);
});
