import { createNftablesBackend } from "../../../../backends/nftables/backend.ts";
import type { Backend, BackendOptions } from "../../../../backends/contract/backend.ts";
import type { Family, FamilyDelta, FamilySettings, ServicePort, ServicePortKey } from "../../../../core/model/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { type FakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { createFakeNftHost, type FakeNftHost } from "../../../fakes/nft_runner.ts";
import type { NftTable } from "../../../fakes/nft_tables.ts";
import { fakeSettings } from "../../../fakes/service_port.ts";

/** A backend on a host in memory. */
export interface BackendUnderTest {
  readonly host: FakeNftHost;
  readonly backend: Backend;
  readonly clock: FakeClock;
  /** The warnings so far. */
  readonly warnings: readonly string[];
  /** Sends a full snapshot. */
  snapshot(ports: readonly ServicePort[], settings?: FamilySettings): ReturnType<Backend["sync"]>;
  /** Sends what has changed. */
  change(set: readonly ServicePort[], deleted?: readonly ServicePortKey[]): ReturnType<Backend["sync"]>;
  /** Our table. */
  table(): NftTable;
}

/** The settings of nftables mode with pods in 10.1.0.0/16, with some changes. */
export function nftSettings(changes: Partial<FamilySettings> = {}): FamilySettings {
  return fakeSettings({
    mode: "nftables",
    localTraffic: { by: "source-prefix", prefix: "10.1.0.0/16" },
    nodePortPrefixes: ["192.168.1.1/32"],
    ...changes,
  });
}

/** Creates a backend on a host, by default a new one whose ruleset has no known generation. */
export function backendUnderTest(
  host: FakeNftHost = createFakeNftHost(),
  family: Family = "IPv4",
  generation?: BackendOptions["generation"],
): BackendUnderTest {
  const { clock } = host;
  const warnings: string[] = [];
  const logger = createLogger({ level: "warn", format: "text", clock, write: (line) => void warnings.push(line) });
  const backend = createNftablesBackend({ family, runner: host.runner, generation, clock, logger });
  let revision = 0;
  // What a sync starts and does not await has ended, too.
  const send = (delta: Omit<FamilyDelta, "revision">) =>
    backend.sync({ ...delta, revision: ++revision }).finally(promisesSettled);
  return {
    host,
    backend,
    clock,
    warnings,
    snapshot: (set, settings = nftSettings()) => send({ base: undefined, settings, set, deleted: [] }),
    change: (set, deleted = []) => send({ base: revision, settings: undefined, set, deleted }),
    table: () => host.tables.get(family === "IPv4" ? "ip sluice" : "ip6 sluice")!,
  };
}
