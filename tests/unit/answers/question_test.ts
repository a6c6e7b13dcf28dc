import assert from "node:assert/strict";
import { createAnswers, isAddressAndPort, QuestionError } from "../../../answers/mod.ts";
import { resolveDestination } from "../../../answers/question.ts";
import { describeMode } from "../../../backends/mod.ts";
import { fakeAnswerBasis, HERE } from "../../fakes/answer_basis.ts";
import { node, service } from "../../fakes/cluster_objects.ts";

const answers = createAnswers(fakeAnswerBasis([
  node(HERE, { addresses: ["192.168.1.1"] }),
  service("default/web", {
    type: "NodePort",
    clusterIPs: ["10.0.0.2", "fd00::2"],
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }, {
      name: "dns",
      protocol: "udp",
      port: 53,
      nodePort: 0,
    }],
  }),
  service("default/website", { clusterIPs: ["10.0.0.3"] }),
  service("default/db", { clusterIPs: ["10.0.0.4"] }),
  service("other/db", { clusterIPs: ["10.0.0.5"] }),
  service("default/udp", { clusterIPs: ["10.0.0.6", "fd00::1:80"] }),
  ...Array.from({ length: 20 }, (_, i) => service(`team-${i}/cache`, { clusterIPs: [`10.0.1.${i}`] })),
]));

async function resolved(name: string, from?: string): Promise<readonly string[]> {
  return (await answers.resolve(name, from)).map(({ address, port, protocol }) => `${address} ${port} ${protocol}`);
}

Deno.test("a service stands for every port of its cluster IPs, and for no other service", async () => {
  const all = ["10.0.0.2 80 tcp", "10.0.0.2 53 udp", "fd00::2 80 tcp", "fd00::2 53 udp"];
  for (const name of ["web", "default/web", "web.default", "web.default.svc", "web.default.svc.cluster.local"]) {
    assert.deepEqual((await resolved(name)).toSorted(), all.toSorted(), name);
  }
});

Deno.test("a port by number or name and a protocol narrow a service down", async () => {
  assert.deepEqual(await resolved("default/web:80"), ["10.0.0.2 80 tcp", "fd00::2 80 tcp"]);
  assert.deepEqual(await resolved("web.default:dns"), ["10.0.0.2 53 udp", "fd00::2 53 udp"]);
  for (const name of ["default/web/udp", "web.default/udp", "web/UDP"]) {
    assert.deepEqual(await resolved(name), ["10.0.0.2 53 udp", "fd00::2 53 udp"]);
  }
  assert.deepEqual(
    await resolved("default/udp"),
    ["10.0.0.6 80 tcp", "fd00::1:80 80 tcp"],
    "a service named like a protocol",
  );
});

Deno.test("an address stands for every port at it", async () => {
  assert.deepEqual(await resolved("10.0.0.2"), ["10.0.0.2 80 tcp", "10.0.0.2 53 udp"]);
  for (const name of ["fd00:0::2", "[fd00::2]"]) {
    assert.deepEqual(await resolved(name), ["fd00::2 80 tcp", "fd00::2 53 udp"]);
  }
  for (const name of ["10.0.0.2/udp", "fd00::2/udp"]) assert.match((await resolved(name)).join(), /^\S+ 53 udp$/);
  assert.equal(isAddressAndPort("fd00::1:80"), false, "80 is a part of the address");
  assert.deepEqual(await resolved("fd00::1:80"), ["fd00::1:80 80 tcp"]);
});

Deno.test("a client's address selects the family", async () => {
  assert.deepEqual(await resolved("default/web:80", "2001:db8::1"), ["fd00::2 80 tcp"]);
  await assert.rejects(answers.resolve("default/website", "2001:db8::1"), /must be an IPv4 address/);
  await assert.rejects(answers.resolve("default/web", "nonsense"), /--from is "nonsense"/);
});

Deno.test("a port at this node stands for a node port at its address", async () => {
  assert.equal((await resolved(`${HERE}:30080`))[0], "192.168.1.1 30080 tcp");
});

Deno.test("an unknown name is refused, and the message names near misses", async () => {
  const refusal = async (name: string) => {
    const error = await answers.resolve(name, undefined).then(() => undefined, (error) => error);
    assert.ok(error instanceof QuestionError, name);
    return error.message;
  };
  assert.match(await refusal("default/wep"), /there is no service default\/wep; did you mean default\/web\?/);
  assert.match(await refusal("default/web:8080"), /default\/web has port 80\/TCP, 53\/UDP, not 8080/);
  assert.match(await refusal("elsewhere:80"), /elsewhere is neither a service nor this node/);
  assert.match(await refusal("wep:80"), /wep is neither a service nor this node \(.*\); did you mean web\?/);
  assert.match(await refusal("db"), /there are several services db: default\/db, other\/db; add the namespace/);
  assert.match(await refusal("cache"), /: team-0\/cache, (\S+, ){7}and 12 more; add the namespace/);
  assert.match(await refusal("10.0.0.9"), /no service has this address; add a port: 10\.0\.0\.9:PORT/);
  assert.match(await refusal("fd00::9:80"), /no service has this address; add a port: \[fd00::9:80\]:PORT/);
  assert.match(await refusal("10.0.0.3/udp"), /no UDP service has this address/);
  assert.match(await refusal("not a name"), /is not a destination: use ADDRESS\[:PORT\]/);
});

Deno.test("an address takes a port's name", async () => {
  assert.deepEqual(await resolved("10.0.0.2:http"), ["10.0.0.2 80 tcp"]);
  assert.deepEqual(await resolved("[fd00::2]:dns/udp"), ["fd00::2 53 udp"]);
  await assert.rejects(resolved("10.0.0.2:htp"), /10\.0\.0\.2 has port http \(80\/TCP\), dns \(53\/UDP\), not htp/);
  await assert.rejects(resolved("10.9.9.9:http"), /no service has this address/);
});

Deno.test("an impossible address and a ping are named", async () => {
  for (const text of ["10.0.0.300", "10.0.0.300:80", "10.0.0:http"]) {
    await assert.rejects(resolved(text), /10\.0\.0(\.300)? is not an IP address/, text);
  }
  await assert.rejects(
    resolved("10.0.0.2/icmp"),
    /a ping does not test it \(in iptables mode, .*ask for 10\.0\.0\.2:PORT/,
  );
  await assert.rejects(resolved("10.9.9.9/icmp"), /no service has this address/);
});

Deno.test("a ping of a service's address meets another fate in each mode", () => {
  const objects = [node(HERE, { addresses: ["192.168.1.1"] }), service("default/web", { clusterIPs: ["10.0.0.2"] })];
  const table = {
    iptables: /no rule matches it/,
    userspace: /no rule matches it/,
    nftables: /it is rejected/,
    ipvs: /this node itself answers/,
  } as const;
  for (const [mode, answer] of Object.entries(table)) {
    const basis = fakeAnswerBasis(objects, { mode: describeMode(mode as keyof typeof table) });
    assert.throws(() => resolveDestination("10.0.0.2/icmp", undefined, basis), answer, mode);
  }
});

Deno.test("of two services that claim an address, it stands for the one that has it; the other is still found by name", async () => {
  const rivals = createAnswers(fakeAnswerBasis([
    node(HERE, { addresses: ["192.168.1.1"] }),
    service("default/first", { clusterIPs: ["10.0.0.2"], externalIPs: ["192.0.2.1"], createdSeconds: 1 }),
    service("default/second", { clusterIPs: ["10.0.0.3"], externalIPs: ["192.0.2.1"], createdSeconds: 2 }),
    service("default/third", { clusterIPs: ["10.0.0.2"], createdSeconds: 3 }),
  ]));
  const at = async (name: string) => (await rivals.resolve(name, undefined)).map(({ address }) => address);
  assert.deepEqual(await at("192.0.2.1"), ["192.0.2.1"]);
  assert.deepEqual(await at("default/second"), ["10.0.0.3"]);
  assert.deepEqual(await at("default/third"), ["10.0.0.2"]);
});
