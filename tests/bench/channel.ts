import { createFamilyChannel, type FamilyChannel, REST_DELAYS } from "../../core/channel/family_channel.ts";
import { systemClock } from "../../platform/clock.ts";
import { createFakeFamilyLink, type FakeFamilyLink } from "../fakes/family_link.ts";
import { byKey, fakeSettings } from "../fakes/service_port.ts";
import { clusterServicePort, forEachService } from "./cluster.ts";
import { throwingLogger } from "./throwing_logger.ts";
import type { Stage } from "./stage.ts";

/** A channel and its fake worker. */
interface Connected {
  readonly channel: FamilyChannel;
  readonly link: FakeFamilyLink;
}

/** Turns service ports into deltas for a worker; a change is one service port. */
export const channelStage: Stage<Connected> = {
  name: "channel",
  prepare(size) {
    const ports = forEachService(size, (i) => clusterServicePort(i));
    return {
      async fill() {
        const link = createFakeFamilyLink();
        const channel = createFamilyChannel({
          family: "IPv4",
          connect: link.connect,
          minSyncPeriodMs: 0,
          restDelays: REST_DELAYS,
          mayRest: () => false,
          clock: systemClock,
          logger: throwingLogger,
        });
        channel.configure(fakeSettings());
        channel.start();
        channel.set(byKey(ports));
        link.reset();
        await endOfTurn();
        link.report();
        return { channel, link };
      },
      change({ channel, link }, index, round) {
        const port = clusterServicePort(index, round);
        return async () => {
          channel.set(byKey([port]));
          await endOfTurn();
          link.report();
        };
      },
    };
  },
};

/** The channel batches changes until the current microtask has finished. */
function endOfTurn(): Promise<void> {
  return Promise.resolve();
}
