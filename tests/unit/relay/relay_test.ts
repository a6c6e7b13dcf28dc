import assert from "node:assert/strict";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { FamilyDelta, ServicePort } from "../../../core/model/mod.ts";
import { silentLogger, systemClock } from "../../../platform/mod.ts";
import { createRelay, defaultRelayLimits, type RelayOptions } from "../../../relay/mod.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";

const OPTIONS: RelayOptions = {
  family: "IPv4",
  placement: { by: "redirect", udpAddress: "127.0.0.1" },
  limits: defaultRelayLimits(20_000),
  clock: systemClock,
  logger: silentLogger,
};

const state = (...set: ServicePort[]): FamilyDelta => (
  { revision: 1, base: undefined, settings: fakeSettings(), set, deleted: [] }
);

Deno.test("a connection and a datagram reach an endpoint and are answered", async () => {
  const server: Server = createServer((socket: Socket) => void socket.pipe(socket));
  const port = await new Promise<number>((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port))
  );
  const udp = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const udpEndpoint = `127.0.0.1:${(udp.addr as Deno.NetAddr).port}`;
  const relay = createRelay(OPTIONS);
  const { ports, problems } = await relay.apply(state(
    fakeServicePort("default/web", { clusterEndpoints: [`127.0.0.1:${port}`] }),
    fakeServicePort("default/dns", { protocol: "udp", clusterEndpoints: [udpEndpoint] }),
  ));
  assert.deepEqual(problems, []);

  const client = connect(ports.get("default/web|tcp")!.cluster!, "127.0.0.1");
  client.end("hello");
  const answer: string[] = [];
  for await (const chunk of client) answer.push(String(chunk));
  assert.equal(answer.join(""), "hello");

  const resolver = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const to: Deno.NetAddr = { transport: "udp", hostname: "127.0.0.1", port: ports.get("default/dns|udp")!.cluster! };
  await resolver.send(new TextEncoder().encode("question"), to);
  const [question, from] = await udp.receive();
  await udp.send(question, from);
  const [echoed] = await resolver.receive();
  assert.equal(new TextDecoder().decode(echoed), "question");

  resolver.close();
  udp.close();
  await relay.stop();
  server.close();
  assert.deepEqual(relay.figures(), {
    ...{ connectionsOpen: 0, connectionsAccepted: 1, connectionsRefused: 0, connectionsFailed: 0, failovers: 0 },
    ...{ bytesToEndpoints: 5, bytesToClients: 5, udpFlows: 0, udpFlowsCreated: 1, udpFlowsEvicted: 0 },
    ...{ datagramsToEndpoints: 1, datagramsToClients: 1, datagramsDropped: 0, listeners: 0 },
  });
});
