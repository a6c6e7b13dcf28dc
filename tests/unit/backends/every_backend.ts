/** Every backend on a kernel in memory, for tests of shared behaviour: a test runs the same steps on all of them. */
import { describeMode } from "../../../backends/mod.ts";
import type { Backend } from "../../../backends/contract/backend.ts";
import type {
  Family,
  FamilyDelta,
  FamilySettings,
  ProxyMode,
  ServicePort,
  ServicePortKey,
} from "../../../core/model/mod.ts";
import type { Runner } from "../../../backends/tools/mod.ts";
import { type FakeClock, promisesSettled } from "../../fakes/clock.ts";
import type { ConntrackEntry } from "../../fakes/iptables/conntrack_tool.ts";
import { createFakeNftHost } from "../../fakes/nft_runner.ts";
import {
  outcomeShares,
  outcomeText,
  type PacketHost,
  type PacketRequest,
  type Surroundings,
} from "../../fakes/packet.ts";
import { fakeSettings } from "../../fakes/service_port.ts";
import { rulesToCompare, withoutBlock, withoutNumbers, withSortedSlots } from "../../fakes/slots.ts";
import type { NftTable } from "../../fakes/nft_tables.ts";
import { backendUnderTest as iptablesUnderTest, createHost, tamper } from "./iptables/host.ts";
import { backendUnderTest as ipvsUnderTest, createIpvsHost } from "./ipvs/host.ts";
import { backendUnderTest as nftablesUnderTest } from "./nftables/host.ts";

/** Options of the host under test. */
export interface CaseOptions {
  readonly family?: Family;
  readonly surroundings?: Partial<Surroundings>;
}

/** A backend and its kernel. */
export interface KernelUnderTest {
  readonly host: PacketHost;
  readonly clock: FakeClock;
  /** The connections known to conntrack; a test may add some. */
  readonly conntrack: ConntrackEntry[];
  /**
   * Starts a backend that is set up and has read nothing from the kernel; it runs its tools through `around`, if that is
   * given.
   */
  start(around?: (runner: Runner) => Runner): Promise<Backend>;
  /** The kernel's content: equal texts for equal kernels. */
  dump(): string;
  /**
   * Makes the next kernel change fail, through no fault of a service, with a message that contains `ON_PURPOSE`.
   * @returns a function that cancels the failure if it has not happened yet
   */
  failOnce(when: "before its work" | "after its work"): () => void;
  /** Changes the backend's state as another program would; two numbers select what changes and how. */
  vandalize(at: number, how: number): Promise<void>;
}

/** Marker in the messages of injected failures. */
export const ON_PURPOSE = "on purpose";

/** A backend under test. */
export interface BackendCase {
  readonly name: string;
  readonly mode: ProxyMode;
  /**
   * Whether an address has one endpoint list for all sources, and an empty list refuses everything: IPVS has neither
   * shortcuts of policy Local nor silent drops.
   */
  readonly hasOneListPerAddress?: boolean;
  /** Creates a kernel without rules. */
  createKernel(options?: CaseOptions): KernelUnderTest;
}

/** Every backend; add a new one here to test it. */
export const BACKENDS: readonly BackendCase[] = [
  { name: "iptables", mode: "iptables", createKernel: (options) => iptablesKernel(true, options) },
  { name: "iptables without xt_bpf", mode: "iptables", createKernel: (options) => iptablesKernel(false, options) },
  { name: "nftables", mode: "nftables", createKernel: nftablesKernel },
  { name: "ipvs", mode: "ipvs", hasOneListPerAddress: true, createKernel: ipvsKernel },
];

/** A host whose tools run through another runner. */
function through<Host extends { readonly runner: Runner }>(
  host: Host,
  around: (runner: Runner) => Runner = (runner) => runner,
): Host {
  return { ...host, runner: { ...host.runner, ...around(host.runner) } };
}

function iptablesKernel(bpf: boolean, { family = "IPv4", surroundings }: CaseOptions = {}): KernelUnderTest {
  const host = createHost({ bpf, surroundings });
  const stderr = `iptables-restore: Resource temporarily unavailable ${ON_PURPOSE}`;
  return {
    host: host.runner,
    clock: host.clock,
    conntrack: host.runner.conntrack,
    start: async (around) => (await iptablesUnderTest(through(host, around), family)).backend,
    dump: () => host.runner.dump(family),
    failOnce(when) {
      const failure = { how: "exits", exitCode: 4, stderr, afterItsWork: when === "after its work" } as const;
      return host.runner.inject(({ tool }) => tool.endsWith("tables-restore"), failure, 1);
    },
    async vandalize(at, how) {
      const ours = host.runner.chains(family, "nat").filter((chain) => chain.startsWith("KUBE-"));
      const chain = ours[at % ours.length];
      if (how % 3 === 0 || chain === undefined) {
        await tamper(host, "*nat", ":KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]", "COMMIT");
      } else await tamper(host, "*nat", how % 3 === 1 ? `-F ${chain}` : `-A ${chain} -j RETURN`, "COMMIT");
    },
  };
}

function ipvsKernel({ family = "IPv4", surroundings }: CaseOptions = {}): KernelUnderTest {
  const host = createIpvsHost({ surroundings });
  const { runner, clock } = host;
  const stderr = `Cannot allocate memory ${ON_PURPOSE}`;
  const writes = ["ipset restore", "ipvsadm --restore", "ip -force", "iptables-restore --noflush"];
  let failures = 0;
  return {
    host: runner,
    clock,
    conntrack: runner.conntrack,
    start: async (around) => (await ipvsUnderTest(through(host, around), family)).backend,
    dump: () => runner.dump(family),
    failOnce(when) {
      const failure = { how: "exits", exitCode: 4, stderr, afterItsWork: when === "after its work" } as const;
      const which = writes[failures++ % writes.length]!;
      return runner.inject(({ tool, args }) => `${tool} ${args[0]}`.startsWith(which), failure, 1);
    },
    async vandalize(at, how) {
      const { servers, sets, interfaces } = runner.ipvs;
      const nth = <T>(all: Iterable<T>): T | undefined => [...all][at % Math.max(1, [...all].length)];
      const server = nth(servers.values()), real = server && nth(server.reals.keys());
      const set = nth(sets.values()), entry = set && nth(set.entries);
      switch (how % 7) {
        case 0:
          servers.delete(nth(servers.keys()) ?? "");
          break;
        case 1:
          if (real !== undefined) server!.reals.get(real)!.weight = at % 3 === 0 ? 7 : 0;
          break;
        case 2:
          if (server) server.scheduler = "wrr";
          server?.reals.set("10.9.8.7:6", { weight: 1, active: 0, inactive: 0, connections: 0 });
          break;
        case 3:
          if (entry !== undefined) set!.entries.delete(entry);
          else if (set?.type === "bitmap:port") set.entries.add("77");
          break;
        case 4:
          servers.set("-t 10.77.0.1:9", {
            scheduler: "rr",
            persistentSeconds: 0,
            flags: "",
            reals: new Map(),
            clients: new Map(),
          });
          break;
        case 5:
          interfaces.delete("kube-ipvs0");
          break;
        default:
          await tamper({ runner, clock }, "*nat", "-F KUBE-SERVICES", "COMMIT");
      }
    },
  };
}

function nftablesKernel({ family = "IPv4", surroundings }: CaseOptions = {}): KernelUnderTest {
  const host = createFakeNftHost({ surroundings });
  return {
    host,
    clock: host.clock,
    conntrack: host.conntrack,
    async start(around) {
      const { backend } = nftablesUnderTest(through(host, around), family);
      await backend.setup();
      return backend;
    },
    dump: () => JSON.stringify([...host.tables].map(([name, table]) => [name, sorted(table)])),
    failOnce(when) {
      const hook = when === "before its work" ? "onTransaction" : "afterTransaction";
      const end = () => {
        host[hook] = () => {};
      };
      host[hook] = () => {
        end();
        throw new Error(`killed ${ON_PURPOSE}`);
      };
      return end;
    },
    vandalize(at, how) {
      for (const table of host.tables.values()) vandalizeTable(table, at, how);
      return Promise.resolve();
    },
  };
}

function sorted({ sets, chains }: NftTable): unknown {
  return [
    [...Map.groupBy(sets, ([name]) => withoutBlock(name))].map(([name, blocks]) => [
      name,
      blocks[0]![1].lines,
      withSortedSlots(blocks.flatMap(([, { elements }]) => [...elements].map(([key, value]) => `${key} : ${value}`))),
    ]).sort(),
    [
      ...new Map([...chains].map(([name, { hook, rules }]) => [
        withoutNumbers(name),
        { hook, rules: rulesToCompare(name, rules) },
      ])),
    ].sort(),
  ];
}

function vandalizeTable({ sets, chains }: NftTable, at: number, how: number): void {
  const shared = [...sets].filter(([name]) => name !== "clients").map(([, set]) => set);
  const set = shared[at % shared.length]!;
  const key = [...set.elements.keys()][at % Math.max(1, set.elements.size)];
  if (how % 4 === 0 && key !== undefined) set.elements.delete(key);
  else if (how % 4 === 1 && set.kind === "map" && key !== undefined) set.elements.set(key, "goto nodeports");
  else if (how % 4 === 2) set.elements.set("10.77.0.1 . tcp . 9", set.kind === "map" ? "goto services" : "");
  else [...chains.values()][at % chains.size]!.rules = ["drop"];
}

/** A running backend. */
export interface Served {
  readonly kernel: KernelUnderTest;
  /** Sends a full snapshot. */
  snapshot(ports: readonly ServicePort[], settings?: FamilySettings): ReturnType<Backend["sync"]>;
  /** Sends the head of a full snapshot. */
  head(ports: readonly ServicePort[], settings: FamilySettings): ReturnType<Backend["sync"]>;
  /** Sends the rest of a full snapshot. */
  rest(ports: readonly ServicePort[]): ReturnType<Backend["sync"]>;
  /** Sends a delta. */
  change(set: readonly ServicePort[], deleted?: readonly ServicePortKey[]): ReturnType<Backend["sync"]>;
  resync(): ReturnType<Backend["resync"]>;
  /** The share of packets by outcome, by default from a pod of this node to 10.96.0.10:80. */
  ask(packet?: Partial<PacketRequest>): Record<string, number>;
  /** Sends a packet and returns its outcome. */
  send(packet?: Partial<PacketRequest>): string;
}

/** The default packet. */
export const PACKET: PacketRequest = { from: "pod-on-node", to: "10.96.0.10", port: 80 };

/** Settings with the same meaning in every mode, with pods in 10.244.1.0/24; `changes` override them. */
export function commonSettings(mode: ProxyMode, changes: Partial<FamilySettings> = {}): FamilySettings {
  const { servesLocalhostNodePorts } = describeMode(mode).settings;
  return fakeSettings({
    mode,
    localTraffic: { by: "source-prefix", prefix: "10.244.1.0/24" },
    nodePortPrefixes: ["192.168.1.1/32"],
    ...changes,
    localhostNodePorts: servesLocalhostNodePorts && changes.localhostNodePorts === true,
  });
}

/** Starts a backend on a kernel that may have served before. */
export async function serve(mode: ProxyMode, kernel: KernelUnderTest): Promise<Served> {
  const backend = await kernel.start();
  let revision = 0;
  // What a sync starts and does not await has ended, too.
  const send = (delta: Omit<FamilyDelta, "revision">) =>
    backend.sync({ ...delta, revision: ++revision }).finally(promisesSettled);
  return {
    kernel,
    snapshot: (set, settings = commonSettings(mode)) => send({ base: undefined, settings, set, deleted: [] }),
    head: (set, settings) => send({ base: undefined, settings, set, deleted: [], part: "head" }),
    rest: (set) => send({ base: revision, settings: undefined, set, deleted: [], part: "rest" }),
    change: (set, deleted = []) => send({ base: revision, settings: undefined, set, deleted }),
    resync: () => backend.resync(),
    ask: (packet) => outcomeShares(kernel.host, { ...PACKET, ...packet }),
    send: (packet) => outcomeText(kernel.host.send({ ...PACKET, ...packet })),
  };
}
