import assert from "node:assert/strict";
import { describeMode } from "../../../../backends/mod.ts";
import { createAnswers } from "../../../../answers/mod.ts";
import { endpointsTable, servicesTable } from "../../../../cli/text/tables.ts";
import type { ServiceTraffic } from "../../../../core/model/mod.ts";
import { fakeAnswerBasis, HERE } from "../../../fakes/answer_basis.ts";
import { endpoint, endpointSlice, node, service, terminatingEndpoint } from "../../../fakes/cluster_objects.ts";

const EDGE = [
  node(HERE, { zone: "a" }),
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

Deno.test("services and endpoints of both families are listed by name with their problems", async () => {
  const answers = createAnswers(fakeAnswerBasis([
    ...EDGE,
    service("default/web", { clusterIPs: ["10.0.0.2", "fd00::2"] }),
    service("other/thief", { clusterIPs: ["10.0.0.1"] }),
  ]));
  assert.equal(
    servicesTable(await answers.services("")),
    `NAME               TYPE          FRONTENDS                             INTERNAL  EXTERNAL  ENDPOINTS  STATE       NOTES
default/edge:http  LoadBalancer  10.0.0.1:80,192.0.2.1:80,*:30080/TCP  cluster   local     2/4        -           affinity 60 s
default/web:http   ClusterIP     10.0.0.2:80/TCP                       reject    -         0/0        -
default/web:http   ClusterIP     [fd00::2]:80/TCP                      reject    -         0/0        -
other/thief:http   ClusterIP     10.0.0.1:80/TCP                       reject    -         0/0        not served  \
other/thief:http|tcp claims 10.0.0.1:80/TCP, which belongs to default/edge:http|tcp; it is not served until that service \
port releases it
`,
  );
  assert.equal((await answers.services("default/")).length, 3);
  assert.match(
    endpointsTable(await answers.endpoints("edge")),
    /10\.2\.0\.2:8080\/TCP {2}far +- +out {2}policy Cluster: term/,
  );
});

Deno.test("a limited node port is listed with its prefixes", async () => {
  const ports = [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }] as const;
  const web = service("default/web", {
    ...{ type: "NodePort", clusterIPs: ["10.0.0.2", "fd00::2"], ports },
    own: { nodePortAddresses: "192.168.1.1, 192.168.2.0/24" },
  });
  const text = servicesTable(await createAnswers(fakeAnswerBasis([web])).services(""));
  assert.match(text, / 10\.0\.0\.2:80,192\.168\.1\.1\/32:30080,192\.168\.2\.0\/24:30080\/TCP /);
  assert.match(text, / \[fd00::2\]:80\/TCP /);
});

Deno.test("the algorithm and the shares have columns if a service is not balanced by default", async () => {
  const mode = describeMode("nftables");
  const answers = createAnswers(fakeAnswerBasis([
    service("default/web", { own: { balance: "consistent-hash", affinityHash: "client", weights: "zone=a: 3" } }),
    endpointSlice("default/web-1", [endpoint("10.1.0.1", { zone: "a" }), endpoint("10.2.0.1", { ready: false })]),
    endpointSlice("default/web-2", [endpoint("10.2.0.3")]),
    service("default/plain", { clusterIPs: ["10.0.0.2"] }),
    endpointSlice("default/plain-1", [endpoint("10.1.0.9")]),
  ], { mode }));
  assert.equal(
    servicesTable(await answers.services("")),
    `NAME                TYPE       FRONTENDS        INTERNAL  EXTERNAL  ENDPOINTS  BALANCE                              STATE  NOTES
default/plain:http  ClusterIP  10.0.0.2:80/TCP  cluster   -         1/1        -                                    -
default/web:http    ClusterIP  10.0.0.1:80/TCP  cluster   -         2/3        consistent-hash by client, weighted  -
`,
  );
  assert.equal(
    endpointsTable(await answers.endpoints("")),
    `SERVICE             ENDPOINT           NODE   ZONE  USE  SHARE  WHY
default/plain:http  10.1.0.9:8080/TCP  other  -     in   -      ready
default/web:http    10.1.0.1:8080/TCP  other  a     in   75 %   ready
default/web:http    10.2.0.1:8080/TCP  other  -     out  -      not ready
default/web:http    10.2.0.3:8080/TCP  other  -     in   25 %   ready
`,
  );
});

Deno.test("traffic has columns for what the mode counts", async () => {
  const headings = async (traffic: ServiceTraffic) => {
    const { failures: _, ...endpointTraffic } = traffic;
    const answers = createAnswers({
      ...fakeAnswerBasis(EDGE),
      traffic: { ofPort: () => traffic, ofEndpoint: () => endpointTraffic },
    });
    const tables = [servicesTable(await answers.services("")), endpointsTable(await answers.endpoints(""))];
    return tables.map((table) =>
      /ENDPOINTS {2}(.*?) +STATE|USE {2}(.*?) +WHY/.exec(table)!.slice(1).join("").replace(/ +/g, " ")
    );
  };
  const perSecond = { connections: 1, packets: 2, bytes: 3 };
  const whole = { connections: 1, packets: 2, bytes: 3, perSecond, failures: { "no-endpoints": 4 } };
  assert.deepEqual(await headings(whole), ["CONN/S BYTES/S FAILED", "CONN/S BYTES/S"]);
  const { failures: _, ...withoutFailures } = whole;
  assert.deepEqual(await headings(withoutFailures), ["CONN/S BYTES/S", "CONN/S BYTES/S"]);
  const connectionsOnly = { connections: 1, perSecond: { connections: 1 }, failures: {} };
  assert.deepEqual(await headings(connectionsOnly), ["CONN/S FAILED", "CONN/S"]);
});
