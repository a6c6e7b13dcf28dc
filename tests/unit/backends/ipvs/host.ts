import type { Backend } from "../../../../backends/contract/backend.ts";
import { createIpvsBackend } from "../../../../backends/ipvs/backend.ts";
import type {
  Family,
  FamilyDelta,
  FamilySettings,
  IpvsSettings,
  ServicePort,
  ServicePortKey,
} from "../../../../core/model/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { createFakeRunner, type FakeRunner, type Surroundings } from "../../../fakes/runner.ts";
import { fakeSettings } from "../../../fakes/service_port.ts";

/** A kernel in memory with IPVS, and its clock. */
export interface IpvsHost {
  readonly runner: FakeRunner;
  readonly clock: FakeClock;
}

/** A backend on a kernel in memory. */
export interface BackendUnderTest extends IpvsHost {
  readonly backend: Backend;
  /** Log lines of level warning and above. */
  readonly logged: readonly string[];
  /** Sends a full snapshot. */
  snapshot(ports: readonly ServicePort[], settings?: FamilySettings): ReturnType<Backend["sync"]>;
  /** Sends a delta. */
  change(set: readonly ServicePort[], deleted?: readonly ServicePortKey[]): ReturnType<Backend["sync"]>;
  /** The tools that wrote something since the last call, with their input. */
  takeWrites(): readonly { readonly tool: string; readonly input: string }[];
}

/** The kernel settings that the mode reads, with their defaults. */
const SYSCTLS = {
  "kernel.osrelease": "6.1.0",
  "net.ipv4.vs.conntrack": 0,
  "net.ipv4.vs.conn_reuse_mode": 1,
  "net.ipv4.vs.expire_nodest_conn": 0,
  "net.ipv4.vs.expire_quiescent_template": 0,
  "net.ipv4.ip_forward": 0,
  "net.ipv4.conf.all.route_localnet": 0,
  "net.ipv4.conf.all.arp_ignore": 0,
  "net.ipv4.conf.all.arp_announce": 0,
};

/** An empty kernel with IPVS. */
export function createIpvsHost(
  { surroundings, sysctls }: {
    readonly surroundings?: Partial<Surroundings>;
    readonly sysctls?: Readonly<Record<string, string | number>>;
  } = {},
): IpvsHost {
  const clock = createFakeClock();
  return {
    runner: createFakeRunner({ clock, surroundings, hasIpvs: true, sysctls: { ...SYSCTLS, ...sysctls } }),
    clock,
  };
}

/** The default settings of IPVS mode in tests. */
export const IPVS_SETTINGS: IpvsSettings = {
  scheduler: "rr",
  strictARP: false,
  excludePrefixes: [],
  timeoutSeconds: { tcp: 0, tcpFin: 0, udp: 0 },
};

const WRITES = ["restore", "--restore", "-batch", "--noflush"];

/** A backend on a host, after its setup. */
export async function backendUnderTest(
  host: IpvsHost = createIpvsHost(),
  family: Family = "IPv4",
  ipvs: Partial<IpvsSettings> = {},
): Promise<BackendUnderTest> {
  const { runner, clock } = host;
  const logged: string[] = [];
  const logger = createLogger({ level: "warn", format: "text", clock, write: (line) => void logged.push(line) });
  const backend = createIpvsBackend({ family, runner, clock, logger, ipvs: { ...IPVS_SETTINGS, ...ipvs } });
  await backend.setup();
  await backend.configure?.();
  runner.forgetCalls();
  let revision = 0;
  const send = (delta: Omit<FamilyDelta, "revision">) => backend.sync({ ...delta, revision: ++revision });
  return {
    ...host,
    backend,
    logged,
    snapshot: (set, settings = ipvsModeSettings()) => send({ base: undefined, settings, set, deleted: [] }),
    change: (set, deleted = []) => send({ base: revision, settings: undefined, set, deleted }),
    takeWrites() {
      const writes = runner.calls.filter(({ args }) => args.some((arg) => WRITES.includes(arg)))
        .map(({ tool, stdin }) => ({ tool, input: stdin }));
      runner.forgetCalls();
      return writes;
    },
  };
}

/** The settings of a node with pods in 10.244.1.0/24, with `changes`. */
export function ipvsModeSettings(changes: Partial<FamilySettings> = {}): FamilySettings {
  return fakeSettings({
    mode: "ipvs",
    localTraffic: { by: "source-prefix", prefix: "10.244.1.0/24" },
    ...changes,
  });
}
