import assert from "node:assert/strict";
import { type Family, INTERNAL_PORT, type ServicePort } from "../../../../core/model/mod.ts";
import { type ClusterObject, KINDS, refOf, type Service } from "../../../../core/objects/cluster_object.ts";
import type { ReportProblems } from "../../../../core/problems/mod.ts";
import { createFamilyPlanner, type InternalService } from "../../../../core/planning/mod.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";
import { fakeTracking } from "../../../fakes/tracking.ts";
import { sayProblems } from "../../../fakes/problems.ts";

function createPlanned(family: Family = "IPv4", onProblems?: ReportProblems) {
  const problems: string[] = [];
  const tracking = fakeTracking();
  for (const kind of KINDS) tracking.synced(kind);
  const planner = createFamilyPlanner({
    family,
    nodeName: "here",
    tracking,
    onProblems: onProblems ?? sayProblems((where, message) => problems.push(`${where}: ${message}`)),
  });
  const plan = () => {
    const { set, ...others } = planner.plan(tracking.take());
    return { set: [...set.values()], ...others };
  };
  return {
    tracking,
    planner,
    plan,
    /** Sets these objects and plans. */
    set(...objects: ClusterObject[]) {
      for (const object of objects) tracking.set(object);
      return plan();
    },
    delete(object: ClusterObject) {
      tracking.delete(refOf(object));
      return plan();
    },
    takeProblems: () => problems.splice(0),
  };
}

const names = (ports: readonly ServicePort[]) => ports.map(({ name }) => name);

const web = service("default/web");
const webSlice = endpointSlice("default/web-a", [endpoint("10.1.0.1")]);

Deno.test("the first plan holds every tracked service, including changes taken earlier", () => {
  const planned = createPlanned();
  planned.tracking.set(web);
  planned.tracking.set(webSlice);
  planned.tracking.take();
  const { set, deleted } = planned.plan();
  assert.deepEqual(names(set), ["default/web:http"]);
  assert.deepEqual(set[0]?.clusterEndpoints, ["10.1.0.1:8080"]);
  assert.deepEqual(deleted, []);
});

Deno.test("a changed slice plans only the ports of its service", () => {
  const planned = createPlanned();
  planned.set(web, webSlice, service("default/db", { clusterIPs: ["10.0.0.2"] }));
  const { set } = planned.set(endpointSlice("default/web-a", [endpoint("10.1.0.2")]));
  assert.deepEqual(set.map(({ name, clusterEndpoints }) => [name, clusterEndpoints]), [
    ["default/web:http", ["10.1.0.2:8080"]],
  ]);
});

Deno.test("a service port says in which round its plan last changed", () => {
  const planned = createPlanned(),
    rounds = () => planned.planner.portsOf("default/web").map(({ plannedIn }) => plannedIn);
  planned.set(web);
  planned.set(webSlice);
  assert.deepEqual(rounds(), [2]);
  planned.set(service("default/db", { clusterIPs: ["10.0.0.2"] }));
  assert.deepEqual([rounds(), planned.planner.rounds()], [[2], 3]);
});

Deno.test("the conflict of a service ends with it", () => {
  const reports: string[] = [];
  const { set, delete: remove } = createPlanned("IPv4", (scope, { length }) => reports.push(`${scope}: ${length}`));
  const rival = service("default/rival", { clusterIPs: web.clusterIPs, createdSeconds: 2 });
  set({ ...web, createdSeconds: 1 }, rival);
  remove(rival);
  const scope = "frontends of default/rival:http|tcp (IPv4)";
  assert.deepEqual(reports, [`${scope}: 1`, `${scope}: 0`]);
});

// A comparison of each contested address with all others would take minutes.
Deno.test("services may contest very many external IPs, and the next one gets them when the first releases them", () => {
  const planned = createPlanned(), all = Array.from({ length: 8_000 }, (_, i) => `11.0.${i >> 8}.${i & 255}`);
  const claiming = (name: string, number: number, externalIPs: readonly string[]) =>
    service(`tenant/${name}`, { clusterIPs: [`10.0.0.${number}`], createdSeconds: number, externalIPs });
  const held = ({ set }: { readonly set: readonly ServicePort[] }) =>
    Object.fromEntries(set.map(({ name, externalIPs }) => [name, externalIPs.length]));
  const services = [claiming("c", 3, all), claiming("b", 2, all), claiming("a", 1, all)];
  assert.deepEqual(held(planned.set(...services)), { "tenant/c:http": 0, "tenant/b:http": 0, "tenant/a:http": 8_000 });
  const released = planned.set(claiming("a", 1, all.slice(0, 1)));
  assert.deepEqual(held(released), { "tenant/a:http": 1, "tenant/b:http": 7_999 });
});

Deno.test("an unchanged plan is not returned again", () => {
  const planned = createPlanned();
  planned.set(web, webSlice);
  const unrelatedPort = { name: "metrics", protocol: "tcp", port: 9090 } as const;
  const { set, deleted } = planned.set({ ...webSlice, ports: [...webSlice.ports, unrelatedPort] });
  assert.deepEqual([set, deleted], [[], []]);
  const ofUnknown = planned.set(endpointSlice("default/unknown-a", [endpoint("10.1.0.9")]));
  assert.deepEqual([ofUnknown.set, ofUnknown.deleted], [[], []]);
});

Deno.test("a deleted service, a removed port or a lost family is deleted from the plan", () => {
  const planned = createPlanned();
  const [http] = web.ports;
  const two: Service = { ...web, ports: [http!, { ...http!, name: "admin", port: 81 }] };
  planned.set(two);
  assert.deepEqual(planned.set(web).deleted, ["default/web:admin|tcp"]);
  assert.deepEqual(planned.set({ ...web, clusterIPs: ["fd00::1"] }).deleted, ["default/web:http|tcp"]);
  assert.deepEqual(names(planned.set(web).set), ["default/web:http"]);
  assert.deepEqual(planned.set({ ...web, ignored: true }).deleted, ["default/web:http|tcp"]);
  planned.set(web);
  const { set, deleted, replaced } = planned.delete(web);
  assert.deepEqual([set, deleted, [...replaced.keys()]], [[], ["default/web:http|tcp"], ["default/web:http|tcp"]]);
});

Deno.test("endpoints tracked before their service are used", () => {
  const planned = createPlanned();
  assert.deepEqual(planned.set(webSlice).set, []);
  assert.deepEqual(planned.set(web).set[0]?.clusterEndpoints, ["10.1.0.1:8080"]);
});

Deno.test("a family plans from its own addresses and endpoints", () => {
  const planned = createPlanned("IPv6");
  const dual = { ...web, clusterIPs: ["10.0.0.1", "fd00::1"] };
  const { set } = planned.set(
    dual,
    webSlice,
    endpointSlice("default/web-b", [endpoint("fd00:1::1")], { family: "IPv6" }),
  );
  assert.deepEqual(set.map(({ clusterIP, clusterEndpoints }) => [clusterIP, clusterEndpoints]), [
    ["fd00::1", ["[fd00:1::1]:8080"]],
  ]);
});

Deno.test("a new node address updates which sources may use load balancer IPs", () => {
  const planned = createPlanned();
  const edge = service("default/edge", {
    type: "LoadBalancer",
    loadBalancerIPs: ["192.0.2.1"],
    sourceRanges: ["192.168.1.0/24"],
  });
  const others = service("default/web", { clusterIPs: ["10.0.0.2"] });
  const [before] = planned.set(edge, others, node("here", { addresses: ["192.168.2.1"] })).set;
  const { set } = planned.set(node("here", { addresses: ["192.168.1.1"] }));
  assert.deepEqual(
    [before, ...set].map((port) => [port?.name, port?.loadBalancerSources?.includeNode]),
    [["default/edge:http", false], ["default/edge:http", true]],
  );
});

Deno.test("a new zone plans every service again and returns the changes", () => {
  const planned = createPlanned();
  const hinted = endpointSlice("default/web-a", [
    endpoint("10.1.0.1", { zoneHints: ["a"] }),
    endpoint("10.1.0.2", { zoneHints: ["b"] }),
  ]);
  planned.set(web, hinted, service("default/db", { clusterIPs: ["10.0.0.2"] }), node("here", { zone: "a" }));
  const { set } = planned.set(node("here", { zone: "b" }));
  assert.deepEqual(set.map(({ name, clusterEndpoints }) => [name, clusterEndpoints]), [
    ["default/web:http", ["10.1.0.2:8080"]],
  ]);
  assert.deepEqual(planned.set(node("here", { zone: "b", leaving: true })).set, []);
});

Deno.test("service ports that drop traffic because they have no local endpoint are counted", () => {
  const planned = createPlanned();
  const local: Service = {
    ...web,
    type: "NodePort",
    internalPolicyLocal: true,
    externalPolicyLocal: true,
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }],
  };
  planned.set(local);
  assert.deepEqual(planned.planner.noLocalEndpoints(), { internal: 0, external: 0 });
  planned.set(webSlice);
  assert.deepEqual(planned.planner.noLocalEndpoints(), { internal: 1, external: 1 });
  planned.set({ ...local, internalPolicyLocal: false });
  assert.deepEqual(planned.planner.noLocalEndpoints(), { internal: 0, external: 1 });
  planned.set(endpointSlice("default/web-a", [endpoint("10.1.0.1", { nodeName: "here" })]));
  assert.deepEqual(planned.planner.noLocalEndpoints(), { internal: 0, external: 0 });
  planned.set(webSlice);
  planned.delete(local);
  assert.deepEqual(planned.planner.noLocalEndpoints(), { internal: 0, external: 0 });
});

const claiming = (at: string, clusterIP: string, fields: Partial<Service>) =>
  service(at, { clusterIPs: [clusterIP], ...fields });
const onNodePort = (nodePort: number, protocol: "tcp" | "udp" = "tcp") => (
  { ports: [{ name: "http", protocol, port: 80, nodePort }] }
);

const conflictTable: {
  readonly name: string;
  readonly winner: Service;
  readonly loser: Service;
  /** The loser's frontends that remain: external IPs, load balancer IPs, node port; undefined where it is not served. */
  readonly remain: readonly [readonly string[], readonly string[], number] | undefined;
  readonly frontend: string;
}[] = [
  {
    name: "a node port: the first by name",
    winner: claiming("default/a", "10.0.0.1", { type: "NodePort", ...onNodePort(30080) }),
    loser: claiming("default/b", "10.0.0.2", {
      type: "NodePort",
      externalIPs: ["192.0.2.1"],
      ...onNodePort(30080),
    }),
    remain: [["192.0.2.1"], [], 0],
    frontend: "node port 30080/TCP",
  },
  {
    name: "an external IP: the first by name",
    winner: claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"] }),
    loser: claiming("default/b", "10.0.0.2", {
      type: "NodePort",
      externalIPs: ["192.0.2.1", "192.0.2.2"],
      ...onNodePort(30080),
    }),
    remain: [["192.0.2.2"], [], 30080],
    frontend: "192.0.2.1:80/TCP",
  },
  {
    name: "a load balancer IP takes precedence over an external IP",
    winner: claiming("default/b", "10.0.0.2", { loadBalancerIPs: ["192.0.2.1"] }),
    loser: claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"] }),
    remain: [[], [], 0],
    frontend: "192.0.2.1:80/TCP",
  },
  {
    name: "a cluster IP takes precedence over a load balancer IP",
    winner: claiming("default/b", "10.0.0.2", {}),
    loser: claiming("default/a", "10.0.0.1", { loadBalancerIPs: ["10.0.0.2", "192.0.2.1"] }),
    remain: [[], ["192.0.2.1"], 0],
    frontend: "10.0.0.2:80/TCP",
  },
  {
    name: "an external IP: the older service, whatever its name",
    winner: claiming("default/b", "10.0.0.2", { externalIPs: ["192.0.2.1"], createdSeconds: 1_700_000_000 }),
    loser: claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"], createdSeconds: 1_700_000_001 }),
    remain: [[], [], 0],
    frontend: "192.0.2.1:80/TCP",
  },
  {
    name: "an external IP: a service of known age",
    winner: claiming("default/b", "10.0.0.2", { externalIPs: ["192.0.2.1"], createdSeconds: 1_700_000_000 }),
    loser: claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"] }),
    remain: [[], [], 0],
    frontend: "192.0.2.1:80/TCP",
  },
  {
    name: "a load balancer IP takes precedence over an external IP, even of an older service",
    winner: claiming("default/b", "10.0.0.2", { loadBalancerIPs: ["192.0.2.1"], createdSeconds: 1_700_000_001 }),
    loser: claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"], createdSeconds: 1_700_000_000 }),
    remain: [[], [], 0],
    frontend: "192.0.2.1:80/TCP",
  },
  {
    name: "a node port: the older service",
    winner: claiming("default/b", "10.0.0.2", {
      ...{ type: "NodePort", createdSeconds: 1_700_000_000 },
      ...onNodePort(30080),
    }),
    loser: claiming("default/a", "10.0.0.1", {
      ...{ type: "NodePort", createdSeconds: 1_700_000_001 },
      ...onNodePort(30080),
    }),
    remain: [[], [], 0],
    frontend: "node port 30080/TCP",
  },
  {
    name: "a cluster IP: the first by name, and the other is not served",
    winner: claiming("default/a", "10.0.0.1", {}),
    loser: claiming("default/b", "10.0.0.1", { type: "NodePort", ...onNodePort(30080) }),
    remain: undefined,
    frontend: "10.0.0.1:80/TCP",
  },
];

for (const { name, winner, loser, remain, frontend } of conflictTable) {
  Deno.test(`conflict over ${name}`, () => {
    for (const order of [[winner, loser], [loser, winner]]) {
      const planned = createPlanned();
      const plans = new Map<string, ServicePort>();
      const apply = ({ set, deleted }: ReturnType<typeof planned.plan>) => {
        for (const port of set) plans.set(port.name, port);
        for (const key of deleted) plans.delete(key.slice(0, key.indexOf("|")));
      };
      const remaining = (of: Service) => {
        const port = plans.get(`default/${of.name}:http`);
        return port && [port.externalIPs, port.loadBalancerIPs, port.nodePort];
      };
      const whole = (of: Service) => [of.externalIPs, of.loadBalancerIPs, of.ports[0]!.nodePort];
      for (const object of order) apply(planned.set(object));

      assert.deepEqual(remaining(winner), whole(winner));
      assert.deepEqual(remaining(loser), remain);
      const consequence = remain ? "it is served without it" : "it is not served";
      assert.deepEqual(planned.takeProblems(), [
        `default/${loser.name}:http|tcp (IPv4): default/${loser.name}:http|tcp claims ${frontend}, which belongs to ` +
        `default/${winner.name}:http|tcp; ${consequence} until that service port releases it`,
      ]);

      apply(planned.set(endpointSlice(`default/${loser.name}-x`, [endpoint("10.1.0.1")])));
      assert.deepEqual(remaining(loser), remain);
      assert.deepEqual(planned.takeProblems(), []);

      apply(planned.delete(winner));
      assert.deepEqual(remaining(winner), undefined);
      assert.deepEqual(remaining(loser), whole(loser));
      assert.deepEqual(planned.takeProblems(), []);
    }
  });
}

Deno.test("with three claimants, the next by name follows the winner", () => {
  const planned = createPlanned();
  const [a, b, c] = ["a", "b", "c"].map((name, i) =>
    claiming(`default/${name}`, `10.0.0.${i}`, { externalIPs: ["192.0.2.1"] })
  );
  planned.set(c!, b!, a!);
  const { set } = planned.delete(a!);
  assert.deepEqual(set.map(({ name, externalIPs }) => [name, externalIPs]), [["default/b:http", ["192.0.2.1"]]]);
});

Deno.test("a winner that gives up a frontend leaves it to the other claimant", () => {
  const planned = createPlanned();
  const a = claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"] });
  planned.set(a, claiming("default/b", "10.0.0.2", { externalIPs: ["192.0.2.1"] }));
  const { set } = planned.set({ ...a, externalIPs: ["192.0.2.2"] });
  assert.deepEqual(
    new Map(set.map(({ name, externalIPs }) => [name, externalIPs])),
    new Map([
      ["default/a:http", ["192.0.2.2"]],
      ["default/b:http", ["192.0.2.1"]],
    ]),
  );
});

Deno.test("a service that was deleted and created again, unnoticed, loses its address to the older claimant", () => {
  const planned = createPlanned();
  const a = claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"], createdSeconds: 1_700_000_000 });
  planned.set(a, claiming("default/b", "10.0.0.2", { externalIPs: ["192.0.2.1"], createdSeconds: 1_700_000_001 }));
  const { set } = planned.set({ ...a, createdSeconds: 1_700_000_002 });
  assert.deepEqual(
    new Map(set.map(({ name, externalIPs }) => [name, externalIPs])),
    new Map([["default/a:http", []], ["default/b:http", ["192.0.2.1"]]]),
  );
});

Deno.test("an address with another port and a node port with another protocol do not conflict", () => {
  const planned = createPlanned();
  const { set } = planned.set(
    claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"], ...onNodePort(30080) }),
    claiming("default/b", "10.0.0.2", { externalIPs: ["192.0.2.1"], ...onNodePort(30080, "udp") }),
    claiming("default/c", "10.0.0.3", {
      externalIPs: ["192.0.2.1"],
      ports: [{ name: "", protocol: "tcp", port: 81, nodePort: 0 }],
    }),
  );
  assert.equal(set.length, 3);
  assert.deepEqual(planned.takeProblems(), []);
});

Deno.test("two ports of one service with the same node port conflict", () => {
  const planned = createPlanned();
  const { set } = planned.set(service("default/a", {
    ports: [
      { name: "x", protocol: "tcp", port: 80, nodePort: 30080 },
      { name: "w", protocol: "tcp", port: 81, nodePort: 30080 },
    ],
  }));
  assert.deepEqual(set.map(({ name, nodePort }) => [name, nodePort]), [["default/a:x", 0], ["default/a:w", 30080]]);
  assert.equal(planned.takeProblems().length, 1);
});

Deno.test("a service port that loses many frontends names some and the number of the others", () => {
  const planned = createPlanned();
  const externalIPs = Array.from({ length: 25 }, (_, i) => `192.0.2.${i + 1}`);
  const loadBalancer = { type: "LoadBalancer", loadBalancerIPs: externalIPs } as const;
  planned.set(claiming("default/a", "10.0.0.1", loadBalancer), claiming("default/b", "10.0.0.2", { externalIPs }));
  const [problem] = planned.takeProblems();
  assert.equal(problem!.split("; ").filter((part) => part.includes(" claims 192.0.2.")).length, 10);
  assert.match(problem!, /; so do 15 more of its frontends$/);
});

Deno.test("an external IP that becomes a load balancer IP gains its precedence", () => {
  const planned = createPlanned();
  const b = claiming("default/b", "10.0.0.2", { type: "LoadBalancer", externalIPs: ["192.0.2.1"] });
  planned.set(claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"] }), b);
  const { set } = planned.set({ ...b, externalIPs: [], loadBalancerIPs: ["192.0.2.1"] });
  assert.deepEqual(
    new Map(set.map(({ name, externalIPs, loadBalancerIPs }) => [name, [...externalIPs, ...loadBalancerIPs]])),
    new Map([["default/a:http", []], ["default/b:http", ["192.0.2.1"]]]),
  );
});

Deno.test("services planned ahead are planned alone and not returned again by the first plan", () => {
  const { tracking, planner } = createPlanned();
  for (const object of [web, webSlice, service("default/other")]) tracking.set(object);
  assert.deepEqual(names([...planner.planSome(["default/web"]).set.values()]), ["default/web:http"]);
  assert.deepEqual(names([...planner.plan(tracking.take()).set.values()]), ["default/other:http"]);
});

Deno.test("a frontend planned ahead moves to its rightful owner in the first plan", () => {
  const { tracking, planner, takeProblems } = createPlanned();
  tracking.set(claiming("default/b", "10.0.0.2", { externalIPs: ["192.0.2.1"] }));
  tracking.set(claiming("default/a", "10.0.0.1", { externalIPs: ["192.0.2.1"] }));
  assert.deepEqual([...planner.planSome(["default/b"]).set.values()].map((port) => port.externalIPs), [["192.0.2.1"]]);
  const { set } = planner.plan(tracking.take());
  assert.deepEqual(
    new Map(Array.from(set.values(), ({ name, externalIPs }) => [name, externalIPs])),
    new Map([["default/a:http", ["192.0.2.1"]], ["default/b:http", []]]),
  );
  assert.equal(takeProblems().length, 1);
});

const CANARY: InternalService = { address: "169.254.238.1", target: "192.0.2.1:4711" };

Deno.test("the canary is planned like a service with one endpoint on this node, and is none of the cluster's", () => {
  const { planner, plan, tracking } = createPlanned();
  plan();
  const planned = [...planner.planInternal(CANARY).set.values()];
  assert.deepEqual(names(planned), ["sluice.internal/probe"]);
  const { clusterIP, port, internal, clusterEndpoints, endpointsOnThisNode } = planned[0]!;
  assert.deepEqual(
    { clusterIP, port, internal, clusterEndpoints, endpointsOnThisNode },
    {
      clusterIP: CANARY.address,
      port: INTERNAL_PORT,
      internal: "cluster",
      clusterEndpoints: [CANARY.target],
      endpointsOnThisNode: [CANARY.target],
    },
  );
  assert.equal(planner.hasServices(), false);
  assert.deepEqual([...tracking.services.keys()], []);
});

Deno.test("the canary stays when every service is planned again, moves, and goes", () => {
  const { planner, plan, set, tracking } = createPlanned();
  set(web, webSlice);
  planner.planInternal(CANARY);
  tracking.set(node("here", { zone: "elsewhere" }));
  assert.deepEqual(plan().deleted, []);
  assert.equal([...planner.ports()].length, 2);
  const moved = planner.planInternal({ ...CANARY, target: "192.0.2.2:4711" });
  assert.deepEqual(Array.from(moved.set.values(), (port) => port.clusterEndpoints), [["192.0.2.2:4711"]]);
  assert.deepEqual(planner.planInternal(undefined).deleted, ["sluice.internal/probe|tcp"]);
  assert.equal(planner.hasServices(), true);
});
