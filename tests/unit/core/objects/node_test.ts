import assert from "node:assert/strict";
import { decodeObject } from "../../../../core/objects/decode.ts";
import type { Node } from "../../../../core/objects/cluster_object.ts";

type Json = Record<string, unknown>;

const plain: Node = { kind: "Node", name: "node-1", zone: "", addresses: [], podCIDRs: [], leaving: false };

const cases: Record<
  string,
  { metadata?: Json; spec?: Json; status?: Json; gives: Partial<Node>; problems?: readonly string[] }
> = {
  "no fields but its name": { gives: {} },
  "a zone": { metadata: { labels: { "topology.kubernetes.io/zone": "a" } }, gives: { zone: "a" } },
  "internal addresses before external ones, without host names": {
    status: {
      addresses: [
        { type: "Hostname", address: "node-1" },
        { type: "ExternalIP", address: "192.0.2.1" },
        { type: "InternalIP", address: "10.0.0.1" },
        { type: "InternalIP", address: "FD00::1" },
        { type: "ExternalIP", address: "10.0.0.1" },
      ],
    },
    gives: { addresses: ["10.0.0.1", "fd00::1", "192.0.2.1"] },
  },
  "an invalid address": {
    status: { addresses: [{ type: "InternalIP", address: "x" }, { type: "InternalIP", address: "10.0.0.1" }] },
    gives: { addresses: ["10.0.0.1"] },
    problems: ['InternalIP "x" is not an IP address; ignored'],
  },
  "pod CIDRs": {
    spec: { podCIDR: "10.2.0.0/24", podCIDRs: ["10.1.0.0/24", "fd00::/64", "10.1.0.0"] },
    gives: { podCIDRs: ["10.1.0.0/24", "fd00::/64"] },
    problems: ['spec.podCIDRs: "10.1.0.0" is not a CIDR; ignored'],
  },
  "one pod CIDR": { spec: { podCIDR: "10.2.0.0/24" }, gives: { podCIDRs: ["10.2.0.0/24"] } },
  "being deleted": { metadata: { deletionTimestamp: "2024-01-01T00:00:00Z" }, gives: { leaving: true } },
  "about to be deleted by the autoscaler": {
    spec: { taints: [{ key: "other" }, { key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" }] },
    gives: { leaving: true },
  },
  "only cordoned": {
    spec: { unschedulable: true, taints: [{ key: "node.kubernetes.io/unschedulable" }] },
    gives: { leaving: false },
  },
};

for (const [name, { metadata, spec, status, gives, problems = [] }] of Object.entries(cases)) {
  Deno.test(`a Node: ${name}`, () => {
    assert.deepEqual(decodeObject("Node", { metadata: { name: "node-1", ...metadata }, spec, status }), {
      ref: { kind: "Node", namespace: "", name: "node-1" },
      object: { ...plain, ...gives },
      problems,
    });
  });
}

Deno.test("a value that is not an object is a problem", () => {
  for (const [raw, what] of [[null, "null"], ["<html>", '"<html>"'], [[], "a list"], [1n, "a bigint"]] as const) {
    assert.deepEqual(decodeObject("Node", raw).problems, [`Node is ${what}, not an object; ignored`]);
  }
});

Deno.test("a problem names the field with the wrong type", () => {
  for (const [part, field] of [["status", "addresses"], ["spec", "podCIDRs"], ["spec", "taints"]] as const) {
    const { problems } = decodeObject("Node", { metadata: { name: "node-1" }, [part]: { [field]: 7 } });
    assert.ok(problems.some((problem) => problem.includes(`${part}.${field}`)), `${field}: ${problems.join()}`);
  }
});
