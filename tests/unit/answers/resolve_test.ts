import assert from "node:assert/strict";
import { createAnswers, QuestionError } from "../../../answers/mod.ts";
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
]));

async function resolved(name: string, from?: string): Promise<readonly string[]> {
  return (await answers.resolve(name, from)).map(({ address, port, protocol }) => `${address} ${port} ${protocol}`);
}

Deno.test("a service stands for every port of its cluster IPs, and for no other service", async () => {
  const all = ["10.0.0.2 80 tcp", "10.0.0.2 53 udp", "fd00::2 80 tcp", "fd00::2 53 udp"];
  for (const name of ["default/web", "web.default", "web.default.svc", "web.default.svc.cluster.local"]) {
    assert.deepEqual((await resolved(name)).toSorted(), all.toSorted(), name);
  }
});

Deno.test("a port by number or name and a protocol narrow a service down", async () => {
  assert.deepEqual(await resolved("default/web:80"), ["10.0.0.2 80 tcp", "fd00::2 80 tcp"]);
  assert.deepEqual(await resolved("web.default:dns"), ["10.0.0.2 53 udp", "fd00::2 53 udp"]);
  assert.deepEqual(await resolved("default/web/udp"), ["10.0.0.2 53 udp", "fd00::2 53 udp"]);
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
  assert.match(await refusal("not a name"), /is not a destination: use ADDRESS:PORT/);
});
