/** Test tables of kube-proxy (endpointslicecache_test.go, endpointschangetracker_test.go). */
import assert from "node:assert/strict";
import { decodeObject } from "../../../../core/objects/decode.ts";
import type { EndpointSlice, SliceEndpoint } from "../../../../core/objects/cluster_object.ts";
import { createEndpointsTracker, type EndpointsTracker } from "../../../../core/tracking/endpoints_tracker.ts";
import { rawSlice, type RawSliceOptions } from "../../../fakes/raw_objects.ts";

/** By `namespace/name`; undefined for a deleted slice. */
type Slices = Readonly<Record<string, RawSliceOptions | undefined>>;

function decoded(at: string, options: RawSliceOptions): EndpointSlice | undefined {
  const { object } = decodeObject("EndpointSlice", rawSlice(at, options));
  return object?.kind === "EndpointSlice" ? object : undefined;
}

function apply(tracker: EndpointsTracker, slices: Slices): void {
  for (const [at, options] of Object.entries(slices)) {
    const slice = options && decoded(at, options);
    if (slice) tracker.set(at, slice);
    else if (options === undefined) tracker.delete(at);
  }
}

function trackerOf(slices: Slices): EndpointsTracker {
  const tracker = createEndpointsTracker(0);
  apply(tracker, slices);
  return tracker;
}

function stateOf({ ready, serving, terminating, nodeName }: SliceEndpoint): string {
  const state = ready ? "" : terminating ? serving ? " terminating" : " ended" : serving ? " serving" : " unready";
  return `${nodeName === "" ? "" : ` @${nodeName}`}${state}`;
}

/** The endpoints of a port: each target, with its node and state if they are not the default. */
function endpointsOf(tracker: EndpointsTracker, service: string, port: string, protocol: "tcp" | "udp" = "tcp") {
  return tracker.endpointsOf(service, port, protocol).map(({ target, endpoint }) => target + stateOf(endpoint));
}

/** Addresses 1 to `count` of a network, every `unready`th unready, every `terminating`th terminating. */
function numbered(
  network: string,
  count: number,
  { unready = 999, terminating = 999, nodes = [] as readonly string[] } = {},
): string[] {
  return Array.from({ length: count }, (_, i) => i + 1).map((i) => {
    const isUnready = i % unready === 0, isTerminating = i % terminating === 0;
    const state = isTerminating ? isUnready ? " ended" : " terminating" : isUnready ? " unready" : "";
    return `${network}.${i}${nodes.length === 0 ? "" : ` @${nodes[i % nodes.length]}`}${state}`;
  });
}

const targets = (endpoints: readonly string[], port: number) =>
  endpoints.map((text) => text.replace(/^\S+/, (address) => `${address}:${port}`)).sort();

const HOSTS = ["host1", "host2"];
const A = "10.0.1", B = "10.0.2";

const contents:
  readonly (readonly [name: string, slices: Slices, expected: Readonly<Record<string, readonly string[]>>])[] = [
    [
      "one slice, two nodes and two ports",
      { "ns1/svc1-1": { ports: { p0: 80, p1: 443 }, endpoints: numbered(A, 3, { nodes: HOSTS }) } },
      { p0: targets(numbered(A, 3, { nodes: HOSTS }), 80), p1: targets(numbered(A, 3, { nodes: HOSTS }), 443) },
    ],
    [
      "two slices with one port are one list",
      {
        "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 3) },
        "ns1/svc1-2": { ports: { p0: 80 }, endpoints: numbered(B, 3) },
      },
      { p0: [...targets(numbered(A, 3), 80), ...targets(numbered(B, 3), 80)] },
    ],
    [
      "two slices that overlap are their union",
      {
        "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 3) },
        "ns1/svc1-2": { ports: { p0: 80 }, endpoints: numbered(A, 4) },
      },
      { p0: targets(numbered(A, 4), 80) },
    ],
    [
      "two slices that overlap, in which all are unready",
      {
        "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 10, { unready: 1 }) },
        "ns1/svc1-2": { ports: { p0: 80 }, endpoints: numbered(A, 10, { unready: 1 }) },
      },
      { p0: targets(numbered(A, 10, { unready: 1 }), 80) },
    ],
    [
      "two slices that overlap, with some unready in one and fewer in the other: ready wins",
      {
        "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 10, { unready: 3 }) },
        "ns1/svc1-2": { ports: { p0: 80 }, endpoints: numbered(A, 10, { unready: 6 }) },
      },
      { p0: targets(numbered(A, 10, { unready: 6 }), 80) },
    ],
    [
      "the same, with every fifth terminating in both",
      {
        "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 10, { unready: 3, terminating: 5 }) },
        "ns1/svc1-2": { ports: { p0: 80 }, endpoints: numbered(A, 10, { unready: 6, terminating: 5 }) },
      },
      { p0: targets(numbered(A, 10, { unready: 6, terminating: 5 }), 80) },
    ],
    [
      "slices of other services and namespaces",
      {
        "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 3) },
        "ns1/svc2-2": { ports: { p0: 80 }, endpoints: numbered(B, 3) },
        "ns2/svc1-3": { ports: { p0: 80 }, endpoints: numbered("10.0.3", 3) },
      },
      { p0: targets(numbered(A, 3), 80) },
    ],
    [
      "a port without a number is left out",
      { "ns1/svc1-1": { ports: { p0: null }, endpoints: numbered(A, 3, { nodes: HOSTS }) } },
      { p0: [] },
    ],
    [
      "one address at two port numbers is two endpoints",
      {
        "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 2, { nodes: HOSTS }) },
        "ns1/svc1-2": { ports: { p0: 8080 }, endpoints: numbered(A, 2, { nodes: HOSTS }) },
      },
      { p0: ["10.0.1.1:80 @host2", "10.0.1.1:8080 @host2", "10.0.1.2:80 @host1", "10.0.1.2:8080 @host1"] },
    ],
    [
      "of one address three times in a slice, the one that is not terminating",
      {
        "ns1/svc1-1": {
          ports: { p0: 80 },
          endpoints: ["10.0.1.1 @host1 terminating", "10.0.1.1 @host1", "10.0.1.1 @host1 ended"],
        },
      },
      { p0: ["10.0.1.1:80 @host1"] },
    ],
    [
      "addresses with leading zeros are read as decimal, and are the same endpoint",
      { "ns1/svc1-1": { ports: { p0: 80 }, endpoints: ["010.000.001.008", "10.0.1.8"] } },
      { p0: ["10.0.1.8:80"] },
    ],
  ];

for (const [name, slices, expected] of contents) {
  Deno.test(`kube-proxy's slices: ${name}`, () => {
    const tracker = trackerOf(slices);
    const found = Object.keys(expected).map((port) => [port, endpointsOf(tracker, "ns1/svc1", port)]);
    assert.deepEqual(Object.fromEntries(found), expected);
  });
}

const TWO = {
  "ns1/svc1-1": { ports: { p0: 80, p1: 443 }, endpoints: numbered(A, 3, { nodes: HOSTS }) },
  "ns1/svc1-2": { ports: { p0: 80, p1: 443 }, endpoints: numbered(B, 2, { nodes: HOSTS }) },
};
const HERE = { nodes: ["host1"] };

const updates: readonly (readonly [
  name: string,
  before: Slices,
  update: Slices,
  isChanged: boolean,
  expected: readonly string[],
])[] = [
  ["a new slice", {}, { "ns1/svc1-1": TWO["ns1/svc1-1"] }, true, targets(numbered(A, 3, { nodes: HOSTS }), 80)],
  ["the same slice again", TWO, { "ns1/svc1-1": TWO["ns1/svc1-1"] }, false, [
    ...targets(numbered(A, 3, { nodes: HOSTS }), 80),
    ...targets(numbered(B, 2, { nodes: HOSTS }), 80),
  ]],
  [
    "a slice of host names",
    { "ns1/svc1-1": TWO["ns1/svc1-1"] },
    { "ns1/svc1-2": { ...TWO["ns1/svc1-2"], addressType: "FQDN" } },
    false,
    targets(numbered(A, 3, { nodes: HOSTS }), 80),
  ],
  [
    "more endpoints in a slice",
    TWO,
    { "ns1/svc1-1": { ports: { p0: 80, p1: 443 }, endpoints: numbered(A, 5, HERE) } },
    true,
    [...targets(numbered(A, 5, HERE), 80), ...targets(numbered(B, 2, { nodes: HOSTS }), 80)],
  ],
  [
    "a third slice that overlaps the first",
    { "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 3, HERE) } },
    { "ns1/svc1-3": { ports: { p0: 80 }, endpoints: numbered(A, 5, HERE) } },
    true,
    targets(numbered(A, 5, HERE), 80),
  ],
  ["a slice goes", TWO, { "ns1/svc1-1": undefined }, true, targets(numbered(B, 2, { nodes: HOSTS }), 80)],
  ["a slice goes that was not there", TWO, { "ns1/svc1-3": undefined }, false, [
    ...targets(numbered(A, 3, { nodes: HOSTS }), 80),
    ...targets(numbered(B, 2, { nodes: HOSTS }), 80),
  ]],
  [
    "all become unready",
    { "ns1/svc1-1": TWO["ns1/svc1-1"] },
    { "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 3, { ...HERE, unready: 1 }) } },
    true,
    targets(numbered(A, 3, { ...HERE, unready: 1 }), 80),
  ],
  [
    "all become ready",
    { "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 2, { nodes: HOSTS, unready: 1 }) } },
    { "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 2, HERE) } },
    true,
    targets(numbered(A, 2, HERE), 80),
  ],
  [
    "some become terminating",
    { "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 3, { ...HERE, unready: 2, terminating: 2 }) } },
    { "ns1/svc1-1": { ports: { p0: 80 }, endpoints: numbered(A, 3, { ...HERE, unready: 3, terminating: 2 }) } },
    true,
    ["10.0.1.1:80 @host1", "10.0.1.2:80 @host1 terminating", "10.0.1.3:80 @host1 unready"],
  ],
];

for (const [name, before, update, isChanged, expected] of updates) {
  Deno.test(`kube-proxy's slice updates: ${name}`, () => {
    const tracker = trackerOf(before);
    tracker.take();
    apply(tracker, update);
    assert.deepEqual([...tracker.take().services], isChanged ? ["ns1/svc1"] : []);
    assert.deepEqual(endpointsOf(tracker, "ns1/svc1", "p0"), expected);
  });
}

const udp = (ports: Readonly<Record<string, number>>, ...endpoints: string[]): RawSliceOptions => (
  { ports, endpoints, protocol: "UDP" }
);
const ONE = udp({ p11: 11 }, "1.1.1.1");
const COMPLEX_BEFORE: Slices = {
  "ns2/ep2-1": udp({ p22: 22 }, "2.2.2.2 @here", "2.2.2.22 @here"),
  "ns2/ep2-2": udp({ p23: 23 }, "2.2.2.3 @here"),
  "ns4/ep4-1": udp({ p44: 44 }, "4.4.4.4 @here", "4.4.4.5 @here"),
  "ns4/ep4-2": udp({ p45: 45 }, "4.4.4.6 @here"),
};

const transitions: readonly (readonly [
  name: string,
  before: Slices,
  after: Slices,
  changed: readonly string[],
  /** By `namespace/service:port`. */
  expected: Readonly<Record<string, readonly string[]>>,
])[] = [
  ["no change, unnamed port", { "n/ep-1": udp({ "": 11 }, "1.1.1.1") }, { "n/ep-1": udp({ "": 11 }, "1.1.1.1") }, [], {
    "n/ep:": ["1.1.1.1:11"],
  }],
  ["a first slice", {}, { "n/ep-1": udp({ "": 11 }, "1.1.1.1 @here") }, ["n/ep"], { "n/ep:": ["1.1.1.1:11 @here"] }],
  ["the only slice goes", { "n/ep-1": ONE }, { "n/ep-1": undefined }, ["n/ep"], { "n/ep:p11": [] }],
  [
    "an address and a port more",
    { "n/ep-1": ONE },
    { "n/ep-1": udp({ p11: 11, p12: 12 }, "1.1.1.1", "1.1.1.2 @here") },
    [
      "n/ep",
    ],
    { "n/ep:p11": ["1.1.1.1:11", "1.1.1.2:11 @here"], "n/ep:p12": ["1.1.1.1:12", "1.1.1.2:12 @here"] },
  ],
  [
    "an address and a port less",
    { "n/ep-1": udp({ p11: 11, p12: 12 }, "1.1.1.1", "1.1.1.2 @here") },
    { "n/ep-1": ONE },
    [
      "n/ep",
    ],
    { "n/ep:p11": ["1.1.1.1:11"], "n/ep:p12": [] },
  ],
  ["a port renamed", { "n/ep-1": ONE }, { "n/ep-1": udp({ new: 11 }, "1.1.1.1") }, ["n/ep"], {
    "n/ep:p11": [],
    "n/ep:new": ["1.1.1.1:11"],
  }],
  ["a port renumbered", { "n/ep-1": ONE }, { "n/ep-1": udp({ p11: 22 }, "1.1.1.1") }, ["n/ep"], {
    "n/ep:p11": ["1.1.1.1:22"],
  }],
  ["from no endpoint to one", { "n/ep-1": udp({ "": 11 }) }, { "n/ep-1": udp({ "": 11 }, "1.1.1.1") }, ["n/ep"], {
    "n/ep:": ["1.1.1.1:11"],
  }],
  [
    "from ready to terminating",
    { "n/ep-1": udp({ "": 11 }, "1.1.1.1") },
    { "n/ep-1": udp({ "": 11 }, "1.1.1.1 terminating") },
    ["n/ep"],
    { "n/ep:": ["1.1.1.1:11 terminating"] },
  ],
  [
    "from terminating to none",
    { "n/ep-1": udp({ "": 11 }, "1.1.1.1 terminating") },
    { "n/ep-1": udp({ "": 11 }) },
    ["n/ep"],
    { "n/ep:": [] },
  ],
  [
    "additions and removals in many services at once",
    { "ns1/ep1-1": ONE, ...COMPLEX_BEFORE },
    {
      "ns1/ep1-1": udp({ p11: 11 }, "1.1.1.1", "1.1.1.11"),
      "ns1/ep1-2": udp({ p12: 12, p122: 122 }, "1.1.1.2"),
      "ns2/ep2-1": undefined,
      "ns2/ep2-2": undefined,
      "ns3/ep3-1": udp({ p33: 33 }, "3.3.3.3"),
      "ns4/ep4-1": udp({ p44: 44 }, "4.4.4.4 @here"),
      "ns4/ep4-2": undefined,
    },
    ["ns1/ep1", "ns2/ep2", "ns3/ep3", "ns4/ep4"],
    {
      "ns1/ep1:p11": ["1.1.1.11:11", "1.1.1.1:11"],
      "ns1/ep1:p12": ["1.1.1.2:12"],
      "ns1/ep1:p122": ["1.1.1.2:122"],
      "ns2/ep2:p22": [],
      "ns2/ep2:p23": [],
      "ns3/ep3:p33": ["3.3.3.3:33"],
      "ns4/ep4:p44": ["4.4.4.4:44 @here"],
      "ns4/ep4:p45": [],
    },
  ],
];

for (const [name, before, after, changed, expected] of transitions) {
  Deno.test(`kube-proxy's endpoint transitions: ${name}`, () => {
    const tracker = trackerOf(before);
    tracker.take();
    apply(tracker, after);
    assert.deepEqual([...tracker.take().services].sort(), changed);
    const found = Object.keys(expected).map((key) => {
      const [service, port] = key.split(":") as [string, string];
      return [key, endpointsOf(tracker, service, port, "udp")];
    });
    assert.deepEqual(Object.fromEntries(found), expected);
  });
}

const at = (second: number) => new Date(second * 1000).toISOString();
const triggered = (second: number, port = 11): RawSliceOptions => ({
  ...udp({ p11: port }, "1.1.1.1"),
  triggeredAt: at(second),
});

for (
  const [name, steps, expected] of [
    ["one addition", [{ "n/ep1-1": triggered(101) }], { "n/ep1": [101] }],
    ["an addition and an update", [{ "n/ep1-1": triggered(101) }, { "n/ep1-1": triggered(102, 12) }], {
      "n/ep1": [101, 102],
    }],
    ["two services, one of them updated", [{ "n/ep1-1": triggered(102), "n/ep2-1": triggered(103) }, {
      "n/ep1-1": triggered(104, 12),
    }], { "n/ep1": [102, 104], "n/ep2": [103] }],
    ["no annotation", [{ "n/ep1-1": ONE }], {}],
    ["before the start", [{ "n/ep1-1": triggered(99) }], {}],
    ["an addition that is undone", [{ "n/ep1-1": triggered(102) }, { "n/ep1-1": undefined }], {}],
    ["added, deleted and added", [{ "n/ep1-1": triggered(102) }, { "n/ep1-1": undefined }, {
      "n/ep1-1": triggered(103, 12),
    }], { "n/ep1": [103] }],
    ["the deletion of what was not there", [{ "n/ep1-1": undefined }], {}],
  ] as readonly (readonly [string, readonly Slices[], Readonly<Record<string, readonly number[]>>])[]
) {
  Deno.test(`kube-proxy's trigger times: ${name}`, () => {
    const tracker = createEndpointsTracker(100_000);
    for (const step of steps) apply(tracker, step);
    const times = [...tracker.take().triggerTimesMs].map(([key, all]) => [key, all.map((ms) => ms / 1000)]);
    assert.deepEqual(Object.fromEntries(times), expected);
  });
}
