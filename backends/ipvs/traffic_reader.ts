import { BYTES, collectRows, CONNECTIONS, PACKETS, type TrafficReading } from "../../core/model/mod.ts";
import { type Clock, createTurns } from "../../platform/mod.ts";
import type { TrafficReader } from "../contract/mod.ts";
import { createGrowth, createOwners } from "../traffic/mod.ts";
import type { Desired } from "./desired.ts";
import type { RealServerCounters, VirtualServers } from "./virtual_servers.ts";

/** The time until counters of a removed real server are forgotten: the kernel goes on with them for two minutes. */
const REMEMBER_MS = 180_000;

/** Creates a reader of the counters of real servers. The first reading only notes those of an earlier process. */
export function createTrafficReader(
  desired: Pick<Desired, "servicePorts">,
  servers: Pick<VirtualServers, "counters">,
  clock: Clock,
): TrafficReader {
  const growth = createGrowth(), owners = createOwners(desired), rows = collectRows();
  let forgotAtMs = clock.monotonic();
  const turns = createTurns();
  let isStarted = false;

  const note = ({ protocol, address, port, real, connections, packets, bytes }: RealServerCounters) => {
    const key = `${protocol} ${address} ${port} ${real}`;
    const begun = growth.note("first", key, connections, 0), grown = growth.note("second", key, packets, bytes);
    if (begun === undefined && grown === undefined) return;
    const owner = owners.find(address, protocol, port);
    if (owner === undefined) return;
    rows.add(owner, real, CONNECTIONS, begun?.packets ?? 0);
    rows.add(owner, real, PACKETS, grown?.packets ?? 0);
    rows.add(owner, real, BYTES, grown?.bytes ?? 0);
  };
  const readAll = async (): Promise<TrafficReading> => {
    const startedAtMs = clock.monotonic();
    await servers.counters(note);
    const nowMs = clock.monotonic();
    if (nowMs - forgotAtMs >= REMEMBER_MS) {
      growth.endReading();
      forgotAtMs = nowMs;
    }
    const reading = rows.take(nowMs - startedAtMs);
    if (isStarted) return reading;
    isStarted = true;
    return collectRows().take(reading.durationMs);
  };
  const read = () => turns.take(readAll);

  return {
    async start() {
      if (!isStarted) await read();
    },
    read,
    forgetOwners: owners.forget,
  };
}
