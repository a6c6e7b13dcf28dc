import { BYTES, collectRows, CONNECTIONS, PACKETS } from "../../core/model/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import type { TrafficReader } from "../contract/mod.ts";
import { createGrowth, createOwners, createReadings } from "../traffic/mod.ts";
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
  const readAll = async () => {
    await servers.counters(note);
    const nowMs = clock.monotonic();
    if (nowMs - forgotAtMs < REMEMBER_MS) return;
    growth.endReading();
    forgotAtMs = nowMs;
  };
  return { ...createReadings({ rows, clock, readAll }), forgetOwners: owners.forget };
}
