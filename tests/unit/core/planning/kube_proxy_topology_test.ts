/** Endpoints by traffic policy, from the table of kube-proxy's TestCategorizeEndpoints (topology_test.go). */
import assert from "node:assert/strict";
import { decodeObject } from "../../../../core/objects/decode.ts";
import type { ServicePort } from "../../../../core/model/mod.ts";
import { planService } from "../../../../core/planning/service_port.ts";
import { createEndpointsTracker } from "../../../../core/tracking/endpoints_tracker.ts";
import { rawService, rawSlice } from "../../../fakes/raw_objects.ts";

/** Plans a service on node `here` in `zone`; the endpoints have the addresses 10.1.2.0, 10.1.2.1 and so on. */
function plan(
  spec: Readonly<Record<string, unknown>>,
  endpoints: readonly string[],
  zone: string,
  node = "here",
): ServicePort {
  const service = decodeObject("Service", rawService("n/s", { clusterIP: "10.0.0.1", ...spec })).object;
  const raw = rawSlice("n/s-1", {
    ports: { http: 80 },
    endpoints: endpoints.map((words, i) => `10.1.2.${i} ${words}`.trimEnd()),
  });
  const slice = decodeObject("EndpointSlice", raw).object;
  assert(service?.kind === "Service" && slice?.kind === "EndpointSlice");
  const tracker = createEndpointsTracker(0);
  tracker.set("n/s-1", slice);
  const endpointsOf = (port: string, protocol: "tcp" | "udp" | "sctp") => tracker.endpointsOf("n/s", port, protocol);
  return planService({ service, family: "IPv4", node: { name: node, zone }, nodeIP: "192.0.2.1", endpointsOf })[0]!;
}

const PORT = { name: "http", port: 80, protocol: "TCP" };
const INSIDE = { ports: [PORT] };
const OUTSIDE = { type: "NodePort", ports: [{ ...PORT, nodePort: 30080 }] };
const INTERNAL = { internalTrafficPolicy: "Local" };
const EXTERNAL = { externalTrafficPolicy: "Local" };

const ABCA = ["zone=a", "zone=b", "zone=c", "zone=a"];
const LOCAL_TWO = ["zone=a @here", "zone=b @here", "zone=c", "zone=a"];
const NODES = ["zone=a node=n1", "zone=b node=n2", "zone=c node=n3", "zone=a node=n4"];

const table: readonly (readonly [
  name: string,
  spec: Readonly<Record<string, unknown>>,
  endpoints: readonly string[],
  where: { readonly zone?: string; readonly node?: string },
  /** The indexes of the endpoints for policies Cluster and Local, and the internal and external verdicts. */
  expected: readonly [cluster: string, local: string, internal: string, external: string],
])[] = [
  ["hints for this zone", INSIDE, ABCA, { zone: "a" }, ["03", "", "cluster", "cluster"]],
  ["hints do not apply to external policy Local", { ...OUTSIDE, ...EXTERNAL }, LOCAL_TWO, { zone: "a" }, [
    "03",
    "01",
    "cluster",
    "local",
  ]],
  ["hints do not apply to internal policy Local", { ...OUTSIDE, ...INTERNAL }, LOCAL_TWO, { zone: "a" }, [
    "03",
    "01",
    "local",
    "cluster",
  ]],
  ["a node without a zone", INSIDE, ["zone=a"], {}, ["0", "", "cluster", "cluster"]],
  ["a node in another zone", INSIDE, ["zone=a", "zone=c"], { zone: "b" }, ["01", "", "cluster", "cluster"]],
  [
    "an unready endpoint in this zone",
    INSIDE,
    ["zone=a", "zone=b", "zone=c", "zone=a unready serving"],
    { zone: "a" },
    [
      "0",
      "",
      "cluster",
      "cluster",
    ],
  ],
  [
    "only unready endpoints in this zone",
    INSIDE,
    ["zone=a unready serving", "zone=b", "zone=c", "zone=a unready serving"],
    { zone: "a" },
    ["12", "", "cluster", "cluster"],
  ],
  ["a missing hint", INSIDE, ["zone=a", "zone=b", "", "zone=a"], { zone: "a" }, ["0123", "", "cluster", "cluster"]],
  ["several zones in a hint", INSIDE, ["zone=a,b,c", "zone=b,c", "zone=b,d", "zone=c"], { zone: "c" }, [
    "013",
    "",
    "cluster",
    "cluster",
  ]],
  ["hints for this node", INSIDE, NODES, { zone: "a", node: "n1" }, ["0", "", "cluster", "cluster"]],
  ["a missing hint for nodes and zones", INSIDE, [NODES[0]!, "", NODES[2]!, NODES[3]!], { zone: "a", node: "n1" }, [
    "0123",
    "",
    "cluster",
    "cluster",
  ]],
  ["hints for other nodes fall back to zone hints", INSIDE, NODES, { zone: "a", node: "n0" }, [
    "03",
    "",
    "cluster",
    "cluster",
  ]],
  ["a missing node hint falls back to zone hints", INSIDE, [NODES[0]!, "zone=b", "zone=a"], { zone: "a", node: "n1" }, [
    "02",
    "",
    "cluster",
    "cluster",
  ]],
  ["hints for neither this node nor this zone", INSIDE, NODES, { zone: "z", node: "n0" }, [
    "0123",
    "",
    "cluster",
    "cluster",
  ]],
  ["hints and location disagree", { ...OUTSIDE, ...EXTERNAL }, ["zone=a @here", "zone=b @here", "zone=a", "zone=b"], {
    zone: "a",
  }, ["02", "01", "cluster", "local"]],
  ["internal policy Local without endpoints", { ...INSIDE, ...INTERNAL }, [], {}, ["", "", "reject", "reject"]],
  ["internal policy Local, all elsewhere", { ...INSIDE, ...INTERNAL }, ["", ""], {}, ["", "", "drop", "reject"]],
  ["internal policy Local, all here", { ...INSIDE, ...INTERNAL }, ["@here", "@here"], {}, [
    "",
    "01",
    "local",
    "reject",
  ]],
  ["internal policy Local, some here", { ...INSIDE, ...INTERNAL }, ["@here", ""], {}, ["", "0", "local", "reject"]],
  ["policy Cluster, all unready", INSIDE, ["unready serving", "unready serving"], {}, ["", "", "reject", "reject"]],
  ["policy Cluster, some ready", INSIDE, ["unready serving", ""], {}, ["1", "", "cluster", "cluster"]],
  ["policy Cluster, all terminating", INSIDE, ["terminating", "terminating"], {}, ["01", "", "cluster", "cluster"]],
  ["policy Cluster, all ended", INSIDE, ["ended", "ended"], {}, ["", "", "reject", "reject"]],
  ["internal Local, external Cluster", { ...OUTSIDE, ...INTERNAL }, ["@here", ""], {}, ["01", "0", "local", "cluster"]],
  ["internal Cluster, external Local", { ...OUTSIDE, ...EXTERNAL }, ["@here", ""], {}, ["01", "0", "cluster", "local"]],
  ["both Local", { ...OUTSIDE, ...INTERNAL, ...EXTERNAL }, ["@here", ""], {}, ["01", "0", "local", "local"]],
  ["both Local, all elsewhere", { ...OUTSIDE, ...INTERNAL, ...EXTERNAL }, ["", ""], {}, ["01", "", "drop", "drop"]],
  [
    "both Local, all elsewhere and terminating",
    { ...OUTSIDE, ...INTERNAL, ...EXTERNAL },
    ["terminating", "terminating"],
    {},
    ["01", "", "drop", "drop"],
  ],
  [
    "external Local, ready elsewhere and terminating here",
    { ...OUTSIDE, ...EXTERNAL },
    ["", "@here unready serving", "@here terminating", "terminating"],
    {},
    ["0", "2", "cluster", "local"],
  ],
  [
    "external Local without external frontends",
    { ...INSIDE, ...EXTERNAL },
    ["", "@here"],
    {},
    [
      "01",
      "",
      "cluster",
      "cluster",
    ],
  ],
  ["external Local without endpoints", { ...OUTSIDE, ...EXTERNAL }, [], {}, ["", "", "reject", "reject"]],
  ["external Local, all elsewhere", { ...OUTSIDE, ...EXTERNAL }, ["", ""], {}, ["01", "", "cluster", "drop"]],
  ["external Local, all here", { ...OUTSIDE, ...EXTERNAL }, ["@here", "@here"], {}, ["01", "01", "cluster", "local"]],
  ["external Local with an external IP", { ...INSIDE, ...EXTERNAL, externalIPs: ["8.8.8.8"] }, ["@here", ""], {}, [
    "01",
    "0",
    "cluster",
    "local",
  ]],
  ["a node without a name has no local endpoints", { ...OUTSIDE, ...EXTERNAL }, ["@here", ""], { node: "" }, [
    "01",
    "",
    "cluster",
    "drop",
  ]],
];

for (const [name, spec, endpoints, { zone = "", node }, expected] of table) {
  Deno.test(`kube-proxy's endpoints by policy: ${name}`, () => {
    const { clusterEndpoints, localEndpoints, internal, external } = plan(spec, endpoints, zone, node);
    const numbers = (targets: readonly string[]) => targets.map((target) => target.replace(/^10\.1\.2\.|:80$/g, ""));
    assert.deepEqual(
      [numbers(clusterEndpoints).join(""), numbers(localEndpoints).join(""), internal, external],
      expected,
    );
  });
}
