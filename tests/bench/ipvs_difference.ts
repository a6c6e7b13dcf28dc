import type { Backend } from "../../backends/contract/backend.ts";
import { createIpvsBackend } from "../../backends/ipvs/backend.ts";
import { silentLogger } from "../../platform/log.ts";
import { systemClock } from "../../platform/clock.ts";
import { fakeSettings } from "../fakes/service_port.ts";
import { clusterServicePort, forEachService } from "./cluster.ts";
import { createCountingRunner } from "./counting_runner.ts";
import type { Stage } from "./stage.ts";

/**
 * Turns service ports into input for ipvsadm, ipset, ip and iptables-restore, starting from an empty kernel. A change is
 * one service port.
 */
export const ipvsDifferenceStage: Stage<Backend> = {
  name: "ipvs: difference",
  prepare(size) {
    const ports = forEachService(size, (i) => clusterServicePort(i));
    const settings = fakeSettings({ mode: "ipvs" });
    return {
      async fill() {
        const runner = createCountingRunner();
        const backend = createIpvsBackend({ family: "IPv4", runner, clock: systemClock, logger: silentLogger });
        await backend.setup();
        await backend.sync({ revision: 1, base: undefined, settings, set: ports, deleted: [] });
        return backend;
      },
      change(backend, index, round) {
        const port = clusterServicePort(index, round);
        return () => backend.sync({ revision: 2, base: 1, settings: undefined, set: [port], deleted: [] });
      },
    };
  },
};
