/** The texts of `explain` and `get`. */
import assert from "node:assert/strict";
import { explanationText } from "../../../cli/text/explanation_text.ts";
import { endpointsTable } from "../../../cli/text/tables.ts";
import { createAnswers, explain, QuestionError, readQuestion, sharesText } from "../../../answers/mod.ts";
import { fakeAnswerBasis, type FakeBasisOptions, HERE } from "../../fakes/answer_basis.ts";
import { endpoint, endpointSlice, node, service, terminatingEndpoint } from "../../fakes/cluster_objects.ts";
import { fakeSettings } from "../../fakes/service_port.ts";

const NODE = node(HERE, { zone: "a", addresses: ["192.168.1.1", "fd00::9"], podCIDRs: ["10.1.0.0/24"] });
const PODS = fakeSettings({ localTraffic: { by: "source-prefix", prefix: "10.1.0.0/24" } });

const EDGE = [
  NODE,
  service("default/edge", {
    type: "LoadBalancer",
    loadBalancerIPs: ["192.0.2.1"],
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }],
    externalPolicyLocal: true,
    sourceRanges: ["203.0.113.0/24"],
    affinitySeconds: 60,
  }),
  endpointSlice("default/edge-1", [
    endpoint("10.1.0.1", { nodeName: HERE, zone: "a" }),
    endpoint("10.2.0.1", { nodeName: "far", zone: "b" }),
    terminatingEndpoint("10.2.0.2", { nodeName: "far" }),
    endpoint("10.2.0.3", { ready: false, serving: false }),
  ]),
];

async function explanationOf(
  to: string,
  from?: string,
  objects: Parameters<typeof fakeAnswerBasis>[0] = EDGE,
  options: FakeBasisOptions = {},
) {
  const basis = fakeAnswerBasis(objects, { settings: PODS, ...options });
  return explanationText(await explain(readQuestion(to, from), basis), false);
}

Deno.test("an explanation shows the service, its policies, its endpoints with reasons, and the rules", async () => {
  const rules = () => ({ parts: [{ place: "map services", lines: ["one", "two"] }], problem: undefined });
  assert.equal(
    await explanationOf("192.0.2.1:80", undefined, EDGE, { rules }),
    `192.0.2.1:80/TCP on node here (192.168.1.1, zone a, iptables mode)
  is load balancer IP 192.0.2.1:80/TCP of default/edge:http (LoadBalancer)

A new connection
  from a pod of this node: goes to one of 2 endpoints with equal probability
    only from 203.0.113.0/24; other sources are dropped
    not masqueraded: from a pod of this node
  from this node (192.168.1.1): is dropped: the source is not in the load balancer's source ranges
  from outside: goes to 10.1.0.1:8080
    only from 203.0.113.0/24; other sources are dropped
    not masqueraded: external traffic policy Local keeps the client's address

Policies
  externalTrafficPolicy Local              only endpoints on this node may serve: 1; this node and its pods may use endpoints of the whole cluster
  sessionAffinity ClientIP                 a client address stays with its endpoint for 60 s after its last new connection
  loadBalancerSourceRanges 203.0.113.0/24  other sources are dropped

Endpoints (2 of 4 in use)
  in  10.1.0.1:8080  this node (a)  ready
  in  10.2.0.1:8080  far (b)        policy Cluster: ready; policy Local: not on this node
  out 10.2.0.2:8080  far            policy Cluster: terminating, and other endpoints are ready; policy Local: not on this node
  out 10.2.0.3:8080  other          policy Cluster: not ready; policy Local: not on this node

Rules (as a proxy would write them)
  map services
    one
    two
`,
  );
});

Deno.test("reasons are given only for the policy that applies to the source", async () => {
  const outside = await explanationOf("192.0.2.1:80", "203.0.113.7");
  assert.match(outside, /from outside \(203\.0\.113\.7\): goes to 10\.1\.0\.1:8080\n/);
  assert.match(outside, /out 10\.2\.0\.1:8080 {2}far \(b\) +not on this node\n/);
  assert.match(
    await explanationOf("192.0.2.1:80", "198.51.100.1"),
    /is dropped: the source is not in the load balancer's source/,
  );
  assert.match(
    await explanationOf("192.168.1.1:30080", "10.1.0.1"),
    /masqueraded only to 10\.1\.0\.1:8080, the client itself/,
  );
  assert.match(
    await explanationOf("192.168.1.1:30080", "node"),
    /masqueraded: this node's own traffic to an external address/,
  );
});

Deno.test("reasons are given for both policies if the source reaches no endpoint", async () => {
  const text = await explanationOf("192.0.2.1:80", "198.51.100.1");
  assert.match(text, /10\.2\.0\.1:8080 {2}far \(b\) +policy Cluster: ready; policy Local: not on this node\n/);
});

for (
  const [from, origin] of [
    ["127.0.0.1", "node"],
    ["192.168.1.1", "node"],
    // Of the node's pod CIDR.
    ["10.1.0.77", "pod"],
    // An endpoint on this node.
    ["10.9.0.1", "pod"],
    ["198.51.100.7", "outside"],
  ]
) {
  Deno.test(`${from} as a source is of origin ${origin} if traffic is local by its interface`, async () => {
    const settings = fakeSettings({ localTraffic: { by: "bridge", interface: "cni0" } });
    const pod = endpointSlice("default/edge-2", [endpoint("10.9.0.1", { nodeName: HERE })]);
    const { outcomes, remarks } = await explain(
      readQuestion("192.168.1.1:30080", from),
      fakeAnswerBasis([...EDGE, pod], { settings }),
    );
    assert.deepEqual(outcomes.map((outcome) => outcome.from), [{ origin, address: from }]);
    assert.equal(remarks.join().includes("not a known pod address"), origin === "outside");
  });
}

Deno.test("only the policies that affect a frontend are listed", async () => {
  const settings = fakeSettings({ ...PODS, masqueradeAll: true });
  const namesAt = async (to: string) => {
    const { service } = await explain(readQuestion(to), fakeAnswerBasis(EDGE, { settings }));
    return service!.policies.map(({ name }) => name);
  };
  assert.deepEqual(await namesAt("10.0.0.1:80"), ["internalTrafficPolicy", "sessionAffinity", "masqueradeAll"]);
  const external = ["externalTrafficPolicy", "sessionAffinity", "loadBalancerSourceRanges"];
  assert.deepEqual(await namesAt("192.0.2.1:80"), external);
  const text = await explanationOf("10.0.0.1:80");
  assert.match(text, /out 10\.2\.0\.2:8080 .* {2}terminating, and other endpoints are ready\n/);
  assert.doesNotMatch(text, /policy Local/);
});

Deno.test("hints that are followed and hints that are ignored are explained", async () => {
  const hinted = (zones: readonly (readonly string[] | undefined)[]) => [
    NODE,
    service("default/web"),
    endpointSlice("default/web-1", zones.map((zoneHints, i) => endpoint(`10.1.0.${i + 1}`, { zoneHints }))),
  ];
  const followed = await explanationOf("10.0.0.1:80", "pod", hinted([["a"], ["b"]]));
  assert.match(followed, /trafficDistribution same zone +hints keep traffic in zone a\n/);
  assert.match(followed, /out 10\.1\.0\.2:8080 .* its hints are for another zone\n/);
  const ignored = await explanationOf("10.0.0.1:80", "pod", hinted([["a"], undefined]));
  assert.match(ignored, /trafficDistribution hints ignored +1 of 2 ready endpoints have no zone hint\n/);
});

Deno.test("a destination without a service is reported; one claimed by two services names both", async () => {
  assert.match(
    await explanationOf("198.51.100.7:80"),
    /no service has this address and port\n[^]*passes untouched: no service has this/,
  );
  assert.match(await explanationOf("10.0.0.1:81"), /passes untouched: a cluster IP, but no service has this port/);
  const rivals = [...EDGE, service("other/thief", { clusterIPs: ["10.0.0.2"], externalIPs: ["192.0.2.1"] })];
  const text = await explanationOf("192.0.2.1:80", "pod", rivals);
  assert.match(text, /of default\/edge:http \(LoadBalancer\)\n/);
  assert.match(
    text,
    /note: other\/thief:http\|tcp claims 192\.0\.2\.1:80\/TCP, which belongs to default\/edge:http\|tcp/,
  );
  const loopback = await explanationOf("127.0.0.1:30080", "node", EDGE, {
    settings: { ...PODS, localhostNodePorts: false },
  });
  assert.match(
    loopback,
    /note: node port 30080 of default\/edge:http is served at the node's addresses other than loopback/,
  );
});

Deno.test("at an address of this node, an external IP has precedence over a node port", async () => {
  const ports = [{ name: "", protocol: "tcp", port: 80, nodePort: 30080 } as const];
  const nodePort = service("default/node-port", { type: "NodePort", clusterIPs: ["10.0.0.2"], ports });
  const external = service("default/external", {
    ...{ clusterIPs: ["10.0.0.3"], externalIPs: ["192.168.1.1"] },
    ports: [{ ...ports[0]!, port: 30080, nodePort: 0 }],
  });
  for (const services of [[nodePort, external], [external, nodePort]]) {
    const text = await explanationOf("192.168.1.1:30080", "outside", [NODE, ...services]);
    assert.match(text, /is external IP 192\.168\.1\.1:30080\/TCP of default\/external /);
  }
});

Deno.test("the other ports of an address are named, up to eight, if no service wants this one", async () => {
  const ports = Array.from(
    { length: 10 },
    (_, i) => ({ name: `p${i}`, protocol: "tcp", port: 81 + i, nodePort: 0 }) as const,
  );
  const objects = [
    NODE,
    service("default/many", { clusterIPs: ["10.0.0.2"], externalIPs: ["192.0.2.1"], ports }),
    // Not served at all, since another one has its cluster IP.
    service("default/first", { clusterIPs: ["10.0.0.3"], createdSeconds: 1 }),
    service("default/unserved", { clusterIPs: ["10.0.0.3"], externalIPs: ["192.0.2.1"], createdSeconds: 2 }),
  ];
  assert.match(
    await explanationOf("192.0.2.1:70", "pod", objects),
    /88\/TCP \(default\/many:p7\) and 2 more, not 70\/TCP/,
  );
  assert.doesNotMatch(await explanationOf("192.0.2.1:80", "pod", objects), /has port/);
});

Deno.test("an external IP that is an address of this node does not close its other ports in IPVS mode", async () => {
  const objects = [NODE, service("default/web", { externalIPs: ["192.168.1.1"] })];
  const settings = fakeSettings({ ...PODS, mode: "ipvs" });
  assert.match(
    await explanationOf("192.168.1.1:81", "outside", objects, { settings }),
    /from outside: passes untouched/,
  );
});

Deno.test("thousands of service ports that claim an address do not bury the answer", async () => {
  const thieves = Array.from(
    { length: 3_000 },
    (_, i) => service(`other/thief${i}`, { clusterIPs: [`10.9.${i >> 8}.${i & 255}`], externalIPs: ["192.0.2.1"] }),
  );
  const text = await explanationOf("192.0.2.1:80", "pod", [...EDGE, ...thieves]);
  assert.equal(text.match(/note: other\/thief/g)!.length, 8);
  assert.match(text, /note: 2992 more service ports claim it, too\n/);
  assert.match(text, /A new connection\n/);
});

Deno.test("long lists are cut, with unused endpoints first", async () => {
  const many = Array.from({ length: 40 }, (_, i) => endpoint(`10.1.0.${i + 1}`, { ready: i !== 39 }));
  const objects = [NODE, service("default/web"), endpointSlice("default/web-1", many)];
  const text = await explanationOf("10.0.0.1:80", "pod", objects);
  assert.match(text, /Endpoints \(39 of 40 in use\)\n {2}out 10\.1\.0\.40:8080 .* not ready\n/);
  assert.match(text, /and 28 more \(--all shows them\)/);
  const basis = fakeAnswerBasis(objects, { settings: PODS });
  const whole = explanationText(await explain(readQuestion("10.0.0.1:80"), basis), true);
  assert.equal(whole.match(/^ {2}(in|out) /gm)!.length, 40);
});

/** Erases the screen, rings, turns the text round, breaks the line. */
const HOSTILE = "\u001b[2J\u0007\u009b\u202e\u2028\nall in sync";

Deno.test("nothing that a tenant writes controls the terminal of whoever asks", async () => {
  const objects = [
    NODE,
    service("default/web", { own: { weights: HOSTILE, balance: HOSTILE } }),
    endpointSlice("default/web-1", [endpoint("10.1.0.1", { nodeName: HOSTILE, zone: HOSTILE })]),
  ];
  const text = await explanationOf("10.0.0.1:80", undefined, objects);
  assert.match(text, /sluice\.dev\/weights: .*\[2J.*all in sync/);
  const endpoints = await createAnswers(fakeAnswerBasis(objects, { settings: PODS })).endpoints("");
  const table = endpointsTable(endpoints);
  assert.match(table, /\[2J.*all in sync/);
  assert.doesNotMatch(text + table, /(?!\n)[\p{Cc}\p{Cf}\u2028]|^all in sync/mu);
});

Deno.test("destinations and sources are parsed", () => {
  assert.deepEqual(readQuestion("[fd00:0:0::1]:53/UDP", "fd00::2"), {
    family: "IPv6",
    address: "fd00::1",
    port: 53,
    protocol: "udp",
    from: "fd00::2",
  });
  assert.equal(readQuestion("10.0.0.1:80").protocol, "tcp");
  for (const wrong of ["10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:80/icmp", "web:80", "fd00::1:80", ""]) {
    assert.throws(() => readQuestion(wrong), QuestionError, wrong);
  }
  for (const wrong of ["somewhere", "fd00::1", "10.0.0.0/8"]) {
    assert.throws(() => readQuestion("10.0.0.1:80", wrong), QuestionError, wrong);
  }
});

for (
  const [sourceRanges, effect] of [
    [["10.0.0.0/8", "0.0.0.0/0"], "one of them is every address, so every source is admitted"],
    [["fd00::/8", "::/0"], "none of them is of this family, so every source is admitted"],
  ] as const
) {
  Deno.test(`source ranges ${sourceRanges.join()} are explained by their effect`, async () => {
    const balanced = service("default/edge", { type: "LoadBalancer", loadBalancerIPs: ["192.0.2.1"], sourceRanges });
    const text = await explanationOf("192.0.2.1:80", undefined, [
      NODE,
      balanced,
      endpointSlice("default/edge-1", [
        endpoint("10.1.0.1"),
      ]),
    ]);
    assert.match(text, new RegExp(`loadBalancerSourceRanges ${sourceRanges.join(", ")}  ${effect}\n`));
    assert.doesNotMatch(text, /only from/);
  });
}

Deno.test("in userspace mode the relay carries TCP and UDP from its own address; SCTP goes through the kernel", async () => {
  const settings = fakeSettings({ ...PODS, mode: "userspace" });
  const text = await explanationOf("192.0.2.1:80", "pod", EDGE, { settings });
  assert.match(text, /note: Sluice itself carries this traffic \(relay\): .*node's address.*; if an endpoint refuses/);
  assert.match(text, /from a pod of this node: goes to one of 2 endpoints .*\n.*\n {4}masqueraded: the relay connects/);
  const udp = service("default/udp", {
    clusterIPs: ["10.0.0.9"],
    ports: [{ name: "", protocol: "udp", port: 53, nodePort: 0 }],
  });
  assert.doesNotMatch(
    await explanationOf("10.0.0.9:53/udp", "pod", [NODE, udp], { settings }),
    /if an endpoint refuses/,
  );
  const sctp = service("default/sig", {
    clusterIPs: ["10.0.0.9"],
    ports: [{ name: "", protocol: "sctp", port: 9, nodePort: 0 }],
  });
  assert.doesNotMatch(await explanationOf("10.0.0.9:9/sctp", "pod", [NODE, sctp], { settings }), /relay/);
});

Deno.test("node ports at localhost are the relay's in nftables and ipvs mode, under every traffic policy", async () => {
  for (const mode of ["nftables", "ipvs"]) {
    const settings = fakeSettings({ ...PODS, mode, nodePortPrefixes: ["127.0.0.0/8"] });
    const at = (to: string) => explanationOf(to, "node", EDGE, { settings });
    assert.match(await at("127.0.0.1:30080"), /Sluice itself carries .*\n(.*\n)+.*goes to one of 2 endpoints/);
    assert.doesNotMatch(await at("192.0.2.1:80"), /relay/);
    const off = fakeSettings({ ...settings, localhostNodePorts: false });
    assert.doesNotMatch(await explanationOf("127.0.0.1:30080", "node", EDGE, { settings: off }), /relay/);
  }
});

Deno.test("a node port that no address serves, for want of a primary one, is explained", async () => {
  const settings = fakeSettings({ ...PODS, nodePortPrefixes: [] });
  assert.match(
    await explanationOf("192.168.1.1:30080", "node", EDGE, { settings }),
    /served at no address, since the node's primary/,
  );
});

const LIMITED = (nodePortAddresses: string) =>
  EDGE.map((object) => object.kind === "Service" ? { ...object, own: { nodePortAddresses } } : object);

Deno.test("only at an address of this node, a node port and a health check node port are of interest", async () => {
  const objects = EDGE.map((object) => object.kind === "Service" ? { ...object, healthCheckNodePort: 30081 } : object);
  for (const port of [30080, 30081]) {
    const remarksAt = async (address: string, protocol = "") => {
      const basis = fakeAnswerBasis(objects, { settings: fakeSettings({ ...PODS, nodePortPrefixes: [] }) });
      return (await explain(readQuestion(`${address}:${port}${protocol}`), basis)).remarks;
    };
    assert.match((await remarksAt("192.168.1.1")).join(), new RegExp(`node port.* ${port} |${port} is the health`));
    assert.deepEqual(await remarksAt("198.51.100.9"), []);
    assert.doesNotMatch((await remarksAt("192.0.2.1")).join(), new RegExp(`is served|${port} is `));
    // With another protocol it is another port.
    assert.doesNotMatch((await remarksAt("192.168.1.1", "/udp")).join(), /is served|health check/);
    assert.doesNotMatch((await remarksAt("192.168.1.1")).join(), /not TCP/);
  }
});

Deno.test("the addresses to which a service limits its node port are explained, where it is served and where not", async () => {
  const own = { hostAddresses: ["192.168.1.1", "192.168.2.1"] };
  for (const mode of ["iptables", "nftables", "ipvs", "userspace"]) {
    const settings = fakeSettings({ ...PODS, mode });
    const at = (to: string, annotation: string, changes = {}) =>
      explanationOf(to, "outside", LIMITED(annotation), { settings: { ...settings, ...changes }, ...own });
    const served = await at("192.168.1.1:30080", "192.168.1.0/24, fd00::/8");
    assert.match(served, /is node port 30080\/TCP of default\/edge:http/);
    assert.match(served, /goes to 10\.1\.0\.1:8080/);
    assert.match(served, /\n {2}sluice\.dev\/node-port-addresses 192\.168\.1\.0\/24 +only those of the addresses with/);

    const other = await at("192.168.2.1:30080", "192.168.1.0/24, nonsense");
    assert.match(
      other,
      /node port 30080 of default\/edge:http is not served at 192\.168\.2\.1: the annotation \S+addresses limits it to 192\.168\.1\.0\/24\n/,
    );
    assert.match(
      other,
      /annotation sluice\.dev\/node-port-addresses: "nonsense" is not an IP address or a CIDR; ignored/,
    );
    assert.match(other, /from outside: passes untouched/);
    assert.match(await at("192.168.1.1:30080", "fd00::/8"), / limits it to no address of this family\n/);

    // An address that the settings do not select is not the annotation's.
    const unselected = await at("192.168.2.1:30080", "192.168.2.1", { nodePortPrefixes: ["192.168.1.1/32"] });
    assert.match(unselected, /is served at 192\.168\.1\.1\/32, not at 192\.168\.2\.1/);
    assert.doesNotMatch(unselected, /limits it to/);
  }
});

Deno.test("the annotation for node ports is not mentioned where it does not matter", async () => {
  const text = await explanationOf("192.0.2.1:80", "outside", LIMITED("nonsense"));
  assert.doesNotMatch(text, /node-port-addresses/);
});

const WEIGHTED = (balance: string, weights: string) => [
  NODE,
  service("default/web", { own: { balance, weights } }),
  endpointSlice("default/web-1", [
    endpoint("10.1.0.1", { nodeName: HERE, zone: "a" }),
    endpoint("10.2.0.1", { nodeName: "far", zone: "b" }),
    endpoint("10.2.0.2", { ready: false, serving: false, zone: "b" }),
  ]),
];

Deno.test("an explanation shows how a service is balanced, and each endpoint's share", async () => {
  const nftables = { settings: fakeSettings({ mode: "nftables" }) };
  const text = await explanationOf("10.0.0.1:80", "outside", WEIGHTED("random", "zone=a: 3"), nftables);
  assert.match(text, /goes to one of 2 endpoints at random, by weight\n/);
  assert.match(text, /\n {2}balance random, weighted +sluice.dev\/balance: random; sluice.dev\/weights: zone=a: 3\n/);
  assert.match(text, /\n {2}in {2}10\.1\.0\.1:8080 {2}this node \(a\) {2}75 % {2}ready\n/);
  assert.match(text, /\n {2}in {2}10\.2\.0\.1:8080 {2}far \(b\) {8}25 % {2}ready\n/);
  assert.match(text, /\n {2}out 10\.2\.0\.2:8080 {2}other \(b\) {12}not ready\n/);
  const hashed = await explanationOf("10.0.0.1:80", "outside", WEIGHTED("consistent-hash", ""), nftables);
  assert.match(hashed, /goes to one of 2 endpoints by a hash of the client's address and port\n/);
  assert.match(hashed, / {2}50 % {2}ready\n/);
});

Deno.test("with counted connections, an explanation says that, and the share of each endpoint", async () => {
  const nftables = { settings: fakeSettings({ mode: "nftables" }) };
  const text = await explanationOf("10.0.0.1:80", "outside", WEIGHTED("least-connections", "zone=a: 3"), nftables);
  assert.match(text, /goes to one of 2 endpoints at random, weighted by open connections\n/);
  assert.match(text, /\n {2}balance least-connections, weighted +sluice.dev\/balance: least-connections/);
  assert.match(text, / {2}75 % {2}ready\n/);
  assert.equal(sharesText({ cluster: 0.2, open: 12 }), "20 %, 12 open");
  assert.equal(sharesText({ cluster: 0.2, local: 0.5, open: 0 }), "20 %, Local 50 %, 0 open");
});

Deno.test("an endpoint with weight 0 is not in use", async () => {
  const nftables = { settings: fakeSettings({ mode: "nftables" }) };
  const text = await explanationOf("10.0.0.1:80", "outside", WEIGHTED("random", "zone=b: 0"), nftables);
  assert.match(text, /goes to 10\.1\.0\.1:8080\n/);
  assert.match(text, /\n {2}in {2}10\.1\.0\.1:8080 {2}this node \(a\) {2}100 % {2}ready\n/);
  assert.match(text, /\n {2}out 10\.2\.0\.1:8080 {2}far \(b\) +0 % {2}its weight is 0\n/);
});

Deno.test("what the mode cannot do is shown as asked, and as balanced by default", async () => {
  const text = await explanationOf("10.0.0.1:80", "outside", WEIGHTED("consistent-hash", "zone=a: 1"));
  assert.match(text, /goes to one of 2 endpoints with equal probability\n/);
  assert.match(
    text,
    /\n {2}note: annotation sluice.dev\/balance: iptables mode has no consistent-hash; balanced at random\n/,
  );
  assert.match(text, /\n {2}balance default +sluice.dev\/balance: consistent-hash; sluice.dev\/weights: zone=a: 1\n/);
});

Deno.test("a service that is balanced at random because of its size says so", async () => {
  const ports = [80, 81, 82].map((port) => ({ name: `p${port}`, protocol: "tcp", port, nodePort: 0 }) as const);
  const endpoints = Array.from({ length: 300 }, (_, i) => endpoint(`10.1.${i >> 8}.${i & 255}`));
  const large = [
    NODE,
    service("default/large", { clusterIPs: ["10.96.0.7"], ports, own: { balance: "consistent-hash" } }),
    endpointSlice("default/large-1", endpoints, { ports }),
  ];
  const text = await explanationOf("10.96.0.7:80", "pod", large, { settings: { ...PODS, mode: "nftables" } });
  assert.match(text, /its table would have 30243 elements in IPv4; a service may have 30000; balanced at random/);
});

Deno.test("a client that is the only endpoint is masqueraded, in one line", async () => {
  const objects = [
    NODE,
    service("default/own", { clusterIPs: ["10.0.0.8"] }),
    endpointSlice("default/own-1", [endpoint("10.1.0.1", { nodeName: HERE })]),
  ];
  const text = await explanationOf("10.0.0.8:80", "10.1.0.1", objects);
  assert.match(text, /goes to 10\.1\.0\.1:8080\n {4}masqueraded: the endpoint is the client itself/);
  assert.doesNotMatch(text, /not masqueraded|masqueraded only/);
});

Deno.test("at localhost, a node port without endpoints is left to other programs", async () => {
  const objects = EDGE.filter(({ kind }) => kind !== "EndpointSlice");
  const settings = fakeSettings({ ...PODS, mode: "nftables", nodePortPrefixes: ["127.0.0.0/8"] });
  const text = await explanationOf("127.0.0.1:30080", "node", objects, { settings });
  assert.match(text, /passes untouched: no usable endpoint, so Sluice does not listen there/);
});

Deno.test("a load balancer IP with ipMode Proxy says so", async () => {
  const objects = [NODE, service("default/lb", { type: "LoadBalancer", proxiedIPs: ["192.0.2.7"] })];
  assert.match(
    await explanationOf("192.0.2.7:80", "pod", objects),
    /note: 192\.0\.2\.7 is .* of default\/lb with ipMode Proxy/,
  );
});

Deno.test("an algorithm that a port cannot have is explained with the reason", async () => {
  const settings = fakeSettings({ ...PODS, mode: "nftables" });
  const own = (balance: string) => ({ clusterIPs: ["10.0.0.8"], own: { balance } });
  const udp = { ports: [{ name: "", protocol: "udp", port: 53, nodePort: 0 } as const] };
  const many = (count: number) =>
    endpointSlice("default/x-1", Array.from({ length: count }, (_, i) => endpoint(`10.3.${i >> 8}.${i & 255}`)));
  const explained = (service: (typeof EDGE)[number], count: number, to = "10.0.0.8:80") =>
    explanationOf(to, "pod", [NODE, service, many(count)], { settings });
  assert.match(
    await explained(service("default/x", { ...own("least-connections"), ...udp }), 2, "10.0.0.8:53/udp"),
    /note: least-connections counts connections of TCP, not of UDP; balanced at random/,
  );
  assert.match(
    await explained(service("default/x", own("least-connections")), 300),
    /note: least-connections takes up to 250 endpoints, not 300/,
  );
  assert.match(
    await explained(service("default/x", own("consistent-hash")), 1100),
    /note: consistent-hash takes up to \d+ endpoints, not 1100/,
  );
});

Deno.test("an explanation says first what the kernel does not do yet", async () => {
  const remarksOf = async (since: unknown, problem?: string) => {
    const basis = fakeAnswerBasis(EDGE, { settings: PODS, rules: () => ({ parts: [], problem }) });
    const families = { ...basis.families, IPv4: { ...basis.families.IPv4, since: () => since as never } };
    const running = { ...basis, families, rulesFrom: "running proxy" as const };
    return (await explain(readQuestion("192.0.2.1:80", undefined), running)).remarks;
  };
  assert.match((await remarksOf({ state: "waiting" }))[0]!, /^not in effect yet: the sync/);
  assert.match((await remarksOf({ state: "refused", refusal: "no memory" }))[0]!, /^not in effect: the kernel refuses/);
  assert.match((await remarksOf(undefined, "no memory"))[0]!, /^not in effect: the kernel refuses/);
  assert.deepEqual(await remarksOf({ state: "in effect", revision: 1, syncedAtMs: 0, orEarlier: false }), []);
});
