import assert from "node:assert/strict";
import { decodeObject } from "../../../../core/objects/decode.ts";

Deno.test("a ServiceCIDR keeps its prefixes in canonical form", () => {
  const raw = {
    metadata: { name: "kubernetes", deletionTimestamp: "2026-01-01T00:00:00Z" },
    spec: { cidrs: ["10.96.0.0/12", "FD00:96::/112", "10.96.0.0/99", "10.96.0.0/12"] },
    status: { conditions: [{ type: "Ready", status: "False" }] },
  };
  assert.deepEqual(decodeObject("ServiceCIDR", raw), {
    ref: { kind: "ServiceCIDR", namespace: "", name: "kubernetes" },
    object: { kind: "ServiceCIDR", name: "kubernetes", cidrs: ["10.96.0.0/12", "fd00:96::/112"] },
    problems: ['spec.cidrs: "10.96.0.0/99" is not a CIDR; ignored'],
  });
  assert.deepEqual(decodeObject("ServiceCIDR", { metadata: { name: "new" } }).object, {
    kind: "ServiceCIDR",
    name: "new",
    cidrs: [],
  });
});
