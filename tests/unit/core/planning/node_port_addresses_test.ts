import assert from "node:assert/strict";
import { createFamilyPlanner } from "../../../../core/planning/family_planner.ts";
import { nodePortAddressesOf } from "../../../../core/planning/node_port_addresses.ts";
import { FAMILIES } from "../../../../platform/address.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
import { fakeTracking } from "../../../fakes/tracking.ts";

/** The prefixes of both families, and the problems without the name of the annotation. */
function read(nodePortAddresses: string | undefined) {
  const { prefixes, problems } = nodePortAddressesOf({ own: { nodePortAddresses } });
  const about = "annotation sluice.dev/node-port-addresses";
  return [prefixes.IPv4, prefixes.IPv6, ...problems.map((problem) => problem.replace(about, "it"))];
}

Deno.test("a service without the annotation is not limited", () => {
  assert.deepEqual(read(undefined), [undefined, undefined]);
});

Deno.test("addresses and prefixes are sorted by family, in their canonical form", () => {
  assert.deepEqual(read("192.168.1.0/24"), [["192.168.1.0/24"], []]);
  assert.deepEqual(read(" 192.168.1.7/24,\n10.0.0.1 , 10.0.0.1/32,"), [["10.0.0.1/32", "192.168.1.0/24"], []]);
  assert.deepEqual(read("FD00:0::/64, 2001:db8::1"), [[], ["2001:db8::1/128", "fd00::/64"]]);
  assert.deepEqual(read("10.0.0.1,fd00::1"), [["10.0.0.1/32"], ["fd00::1/128"]]);
});

Deno.test("a prefix of length 0 stands for every address of its family", () => {
  assert.deepEqual(read("0.0.0.0/0"), [undefined, []]);
  assert.deepEqual(read("10.0.0.0/8, ::/0"), [["10.0.0.0/8"], undefined]);
});

Deno.test("an invalid entry is left out, and a list without a valid one closes the node ports", () => {
  const closed = "the node ports are at no address";
  assert.deepEqual(read("10.0.0.1, nonsense"), [
    ["10.0.0.1/32"],
    [],
    'it: "nonsense" is not an IP address or a CIDR; ignored',
  ]);
  assert.deepEqual(read("10.0.0.0/33"), [[], [], `it: "10.0.0.0/33" is not an IP address or a CIDR; ${closed}`]);
  assert.deepEqual(read("a,b"), [[], [], `it: "a", "b" are neither IP addresses nor CIDRs; ${closed}`]);
  assert.deepEqual(read("primary,localhost,all,*,10.0.0.1 10.0.0.2"), [
    [],
    [],
    `it: "primary", "localhost", "all" and 2 more are neither IP addresses nor CIDRs; ${closed}`,
  ]);
  for (const text of ["", " ", ",\n,"]) assert.deepEqual(read(text), [[], [], `it lists no address; ${closed}`]);
  assert.deepEqual(read("10.0.0.1,".repeat(500)), [[], [], `it is longer than 4096 characters; ${closed}`]);
});

Deno.test("prefixes after the 32nd are left out", () => {
  const many = Array.from({ length: 40 }, (_, i) => `10.0.${i}.0/24`);
  const kept = many.slice(0, 32).sort();
  assert.deepEqual(read([...many.slice(0, 32), many[0]].join()), [kept, []]);
  assert.deepEqual(read(many.join()), [kept, [], "it has more than 32 prefixes; ignored after these: 8"]);
});

Deno.test("only service ports with a node port carry prefixes, each those of its family", () => {
  const tracking = fakeTracking();
  const planners = FAMILIES.map((family) =>
    createFamilyPlanner({ family, nodeName: "here", tracking, onProblems: () => {} })
  );
  const plan = (nodePortAddresses?: string) => {
    tracking.set(service("default/web", {
      type: "NodePort",
      clusterIPs: ["10.0.0.1", "fd00::1"],
      ports: [
        { name: "http", protocol: "tcp", port: 80, nodePort: 30080 },
        { name: "inner", protocol: "tcp", port: 81, nodePort: 0 },
      ],
      ...nodePortAddresses !== undefined && { own: { nodePortAddresses } },
    }));
    const changes = tracking.take();
    return planners.flatMap((planner) =>
      Array.from(
        planner.plan(changes).set.values(),
        (port) => [port.name, "nodePortPrefixes" in port ? port.nodePortPrefixes : "no field"],
      )
    );
  };
  tracking.set(endpointSlice("default/web-1", [endpoint("10.1.0.1")]));
  assert.deepEqual(plan(), [
    ["default/web:http", "no field"],
    ["default/web:inner", "no field"],
    ["default/web:http", "no field"],
    ["default/web:inner", "no field"],
  ]);
  assert.deepEqual(plan("10.0.0.0/8"), [["default/web:http", ["10.0.0.0/8"]], ["default/web:http", []]]);
  assert.deepEqual(plan("10.0.0.0/8,fd00::/8"), [["default/web:http", ["fd00::/8"]]]);
  assert.deepEqual(plan("0.0.0.0/0,::/0"), [["default/web:http", "no field"], ["default/web:http", "no field"]]);
});
