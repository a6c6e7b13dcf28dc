import assert from "node:assert/strict";
import fc from "fast-check";
import type { SliceEndpoint } from "../../../../core/objects/cluster_object.ts";
import {
  categorizeEndpoints,
  type EndpointFate,
  type EndpointUse,
  explainEndpoints,
  type NodeContext,
} from "../../../../core/planning/endpoints.ts";
import type { ServiceEndpoint } from "../../../../core/tracking/endpoints_tracker.ts";
import { endpoint } from "../../../fakes/cluster_objects.ts";
import { runs } from "../../../property/runs.ts";

const HERE: NodeContext = { name: "here", zone: "a" };
const CLUSTER: EndpointUse = { cluster: true, local: false };
const LOCAL: EndpointUse = { cluster: false, local: true };
const BOTH: EndpointUse = { cluster: true, local: true };

const READY = {};
const TERMINATING = { ready: false, serving: true, terminating: true };
const ENDING = { ready: false, serving: false, terminating: true };
const UNREADY = { ready: false, serving: false, terminating: false };
const SERVING_UNREADY = { ready: false, serving: true, terminating: false };

/** Endpoints named by the last number of their address, in order. */
function endpoints(...each: Partial<SliceEndpoint>[]): ServiceEndpoint[] {
  return each.map((fields, i) => ({ target: String(i), endpoint: endpoint(`10.1.0.${i}`, fields) }));
}

const here = (fields: Partial<SliceEndpoint>) => ({ ...fields, nodeName: "here" });

const categoryTable: {
  readonly name: string;
  readonly given: ServiceEndpoint[];
  readonly use: EndpointUse;
  /** The targets as one string each: cluster, local, on this node, lingering. */
  readonly expected: readonly [cluster: string, local: string, onThisNode: string, lingering: string];
  readonly anyUsable: boolean;
}[] = [
  { name: "none", given: [], use: BOTH, expected: ["", "", "", ""], anyUsable: false },
  {
    name: "policy Cluster uses ready endpoints on every node",
    given: endpoints(READY, here(READY), UNREADY, TERMINATING, ENDING),
    use: CLUSTER,
    expected: ["01", "", "1", "3"],
    anyUsable: true,
  },
  {
    name: "policy Local uses ready endpoints on this node",
    given: endpoints(READY, here(READY), here(UNREADY), here(TERMINATING), here(ENDING)),
    use: LOCAL,
    expected: ["", "1", "1", "03"],
    anyUsable: true,
  },
  {
    name: "both policies",
    given: endpoints(READY, here(READY), here(TERMINATING)),
    use: BOTH,
    expected: ["01", "1", "1", "2"],
    anyUsable: true,
  },
  {
    name: "policy Cluster falls back to terminating endpoints if none is ready",
    given: endpoints(TERMINATING, here(TERMINATING), UNREADY, ENDING, SERVING_UNREADY),
    use: CLUSTER,
    expected: ["01", "", "1", "4"],
    anyUsable: true,
  },
  {
    name: "policy Local falls back to terminating endpoints if none is ready on this node",
    given: endpoints(READY, here(TERMINATING), here(ENDING)),
    use: LOCAL,
    expected: ["", "1", "1", "0"],
    anyUsable: true,
  },
  {
    name: "each policy falls back on its own",
    given: endpoints(READY, here(TERMINATING)),
    use: BOTH,
    expected: ["0", "1", "1", ""],
    anyUsable: true,
  },
  {
    name: "policy Local with endpoints elsewhere only",
    given: endpoints(READY, TERMINATING),
    use: LOCAL,
    expected: ["", "", "", "01"],
    anyUsable: true,
  },
  {
    name: "policy Local with only a terminating endpoint elsewhere",
    given: endpoints(TERMINATING),
    use: LOCAL,
    expected: ["", "", "", "0"],
    anyUsable: true,
  },
  {
    name: "unready endpoints are not used, even if serving",
    given: endpoints(UNREADY, here(UNREADY), ENDING, here(ENDING), SERVING_UNREADY),
    use: BOTH,
    expected: ["", "", "", "4"],
    anyUsable: false,
  },
  {
    name: "ready endpoints that are terminating (publishNotReadyAddresses) are ready",
    given: endpoints(here({ ready: true, serving: true, terminating: true }), here(READY)),
    use: BOTH,
    expected: ["01", "01", "01", ""],
    anyUsable: true,
  },
];

for (const { name, given, use, expected, anyUsable } of categoryTable) {
  Deno.test(`endpoints: ${name}`, () => {
    const found = categorizeEndpoints(given, use, HERE);
    const all = [found.cluster, found.local, found.onThisNode, found.lingering];
    assert.deepEqual(all.map((targets) => targets.join("")), expected);
    assert.equal(found.anyUsable, anyUsable);
  });
}

Deno.test("an endpoint without a node name is not on this node, even if this node has no name", () => {
  const found = categorizeEndpoints(endpoints({ nodeName: "" }), BOTH, { name: "", zone: "" });
  assert.deepEqual([found.cluster, found.local, found.onThisNode], [["0"], [], []]);
});

const zones = (...zoneHints: string[]) => ({ zoneHints });
const nodes = (...nodeHints: string[]) => ({ nodeHints });

const hintTable: {
  readonly name: string;
  readonly given: ServiceEndpoint[];
  readonly node?: NodeContext;
  readonly topology: string;
  readonly cluster: string;
  readonly ignored?: readonly string[];
}[] = [
  { name: "no hints", given: endpoints(READY, READY), topology: "any", cluster: "01" },
  {
    name: "all have zone hints",
    given: endpoints(zones("a"), zones("b"), zones("b", "a")),
    topology: "same-zone",
    cluster: "02",
  },
  {
    name: "a zone hint is missing",
    given: endpoints(zones("a"), zones("b"), READY),
    topology: "any",
    cluster: "012",
    ignored: ["1 of 3 ready endpoints have no zone hint"],
  },
  {
    name: "an empty list of zones is a missing hint",
    given: endpoints(zones("a"), zones()),
    topology: "any",
    cluster: "01",
    ignored: ["1 of 2 ready endpoints have no zone hint"],
  },
  {
    name: "no hint for this zone",
    given: endpoints(zones("b"), zones("c")),
    topology: "any",
    cluster: "01",
    ignored: ["no ready endpoint has a hint for zone a"],
  },
  {
    name: "the zone of this node is unknown",
    given: endpoints(zones("a"), zones("b")),
    node: { name: "here", zone: "" },
    topology: "any",
    cluster: "01",
    ignored: ["the zone of this node is unknown"],
  },
  {
    name: "hints of unready endpoints neither count nor are needed",
    given: endpoints(zones("a"), zones("b"), UNREADY, { ...TERMINATING, ...zones("a") }),
    topology: "same-zone",
    cluster: "0",
  },
  {
    name: "only an unready endpoint has a hint for this zone",
    given: endpoints(zones("b"), { ...UNREADY, ...zones("a") }),
    topology: "any",
    cluster: "0",
    ignored: ["no ready endpoint has a hint for zone a"],
  },
  {
    name: "the terminating fallback ignores hints",
    given: endpoints({ ...TERMINATING, ...zones("b") }, { ...TERMINATING, ...zones("a") }),
    topology: "any",
    cluster: "01",
  },
  {
    name: "all have node hints",
    given: endpoints(nodes("here"), nodes("other"), nodes("other", "here")),
    topology: "same-node",
    cluster: "02",
  },
  {
    name: "node hints take precedence over zone hints",
    given: endpoints({ ...nodes("here"), ...zones("b") }, { ...nodes("other"), ...zones("a") }),
    topology: "same-node",
    cluster: "0",
  },
  {
    name: "no hint for this node: zone hints",
    given: endpoints({ ...nodes("x"), ...zones("a") }, { ...nodes("y"), ...zones("b") }),
    topology: "same-zone",
    cluster: "0",
    ignored: ["no ready endpoint has a hint for node here"],
  },
  {
    name: "a node hint is missing: zone hints",
    given: endpoints({ ...nodes("here"), ...zones("b") }, zones("a")),
    topology: "same-zone",
    cluster: "1",
    ignored: ["1 of 2 ready endpoints have no node hint"],
  },
  {
    name: "neither kind of hint applies",
    given: endpoints({ ...nodes("x"), ...zones("b") }, nodes("y")),
    topology: "any",
    cluster: "01",
    ignored: ["no ready endpoint has a hint for node here", "1 of 2 ready endpoints have no zone hint"],
  },
];

for (const { name, given, node = HERE, topology, cluster, ignored = [] } of hintTable) {
  Deno.test(`topology: ${name}`, () => {
    assert.equal(categorizeEndpoints(given, CLUSTER, node).cluster.join(""), cluster);
    const explained = explainEndpoints(given, CLUSTER, node);
    assert.equal(explained.topology, topology);
    assert.deepEqual(explained.ignoredHints, ignored);
  });
}

Deno.test("policy Local ignores hints, and may use endpoints that they exclude from policy Cluster", () => {
  const given = endpoints(here(zones("b")), zones("a"));
  const found = categorizeEndpoints(given, BOTH, HERE);
  assert.deepEqual([found.cluster, found.local, found.onThisNode], [["1"], ["0"], ["0"]]);
});

Deno.test("endpoints that hints exclude linger", () => {
  assert.deepEqual(categorizeEndpoints(endpoints(zones("b"), zones("a")), CLUSTER, HERE).lingering, ["0"]);
});

Deno.test("the fate of every endpoint is explained", () => {
  const fates = (given: ServiceEndpoint[], use: EndpointUse): [EndpointFate, EndpointFate][] =>
    explainEndpoints(given, use, HERE).endpoints.map(({ cluster, local }) => [cluster, local]);

  const mixed = endpoints(here(READY), READY, here(TERMINATING), here(UNREADY), ENDING);
  assert.deepEqual(fates(mixed, BOTH), [
    ["ready", "ready"],
    ["ready", "remote"],
    ["terminating", "terminating"],
    ["not-ready", "not-ready"],
    ["not-ready", "remote"],
  ]);
  assert.deepEqual(fates(endpoints(here(TERMINATING)), BOTH), [["fallback", "fallback"]]);
  assert.deepEqual(fates(endpoints(READY), CLUSTER), [["ready", "unused"]]);
  assert.deepEqual(fates(endpoints(here(READY)), LOCAL), [["unused", "ready"]]);
  assert.deepEqual(fates(endpoints(zones("a"), zones("b")), CLUSTER), [["ready", "unused"], ["other-zone", "unused"]]);
  assert.deepEqual(fates(endpoints(nodes("here"), nodes("x")), CLUSTER), [["ready", "unused"], [
    "other-node",
    "unused",
  ]]);
});

Deno.test("unreachable endpoints are left out, but never more than half of those that a policy would use", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({ kind: fc.constantFrom(READY, TERMINATING, UNREADY), local: fc.boolean(), fails: fc.boolean() }),
      ),
      fc.constantFrom(CLUSTER, LOCAL, BOTH),
      (each, use) => {
        const all = endpoints(...each.map(({ kind, local }) => local ? here(kind) : kind));
        const failing = new Set(all.filter((_, i) => each[i]!.fails).map(({ target }) => target));
        const whole = categorizeEndpoints(all, use, HERE), rest = categorizeEndpoints(all, use, HERE, failing);
        const explained = explainEndpoints(all, use, HERE, failing).endpoints;
        for (const policy of ["cluster", "local"] as const) {
          const before = whole[policy], after = rest[policy];
          const out = before.filter((target) => !after.includes(target));
          assert.ok(after.every((target) => before.includes(target)));
          assert.ok(out.every((target) => failing.has(target)));
          assert.equal(
            out.length,
            Math.min(before.filter((one) => failing.has(one)).length, Math.floor(before.length / 2)),
          );
          assert.ok(before.length === 0 || after.length > 0);
          assert.ok(out.every((target) => rest.unreachable.includes(target)));
          assert.deepEqual(out, explained.filter((one) => one[policy] === "unreachable").map(({ target }) => target));
        }
        assert.ok(rest.onThisNode.every((target) => rest.cluster.includes(target) || rest.local.includes(target)));
        // The plan names those that are left out, and explains them alike.
        assert.deepEqual(explainEndpoints(all, use, HERE, new Set(rest.unreachable)).endpoints, explained);
      },
    ),
    runs(100),
  );
});
