/** The worker of the measured relay: one TCP and one UDP service port whose endpoint is in the worker's name. */
import { silentLogger, systemClock } from "../../../platform/mod.ts";
import { createRelay, defaultRelayLimits } from "../../../relay/mod.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";

const endpoint = self.name;
const relay = createRelay({
  ...{ family: "IPv4", clock: systemClock, logger: silentLogger },
  placement: { by: "redirect", udpAddress: "127.0.0.1" },
  limits: defaultRelayLimits(1_000_000),
});
const { ports } = await relay.apply({
  ...{ revision: 1, base: undefined, settings: fakeSettings(), deleted: [] },
  set: [
    fakeServicePort("default/web", { clusterEndpoints: [endpoint] }),
    fakeServicePort("default/dns", { protocol: "udp", clusterEndpoints: [endpoint] }),
  ],
});
console.log(JSON.stringify({
  tcp: ports.get("default/web|tcp")!.cluster,
  udp: ports.get("default/dns|udp")!.cluster,
}));
