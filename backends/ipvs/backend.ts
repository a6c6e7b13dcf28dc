import {
  DUMMY_INTERFACE,
  type Family,
  type IpvsSettings,
  type KernelSetting,
  type RulePart,
} from "../../core/model/mod.ts";
import { errorText } from "../../platform/mod.ts";
import {
  type Backend,
  type BackendOptions,
  createReaderOnDemand,
  type DepartureQuestion,
  type Difference,
  type HostQuestion,
  NOTHING_DONE,
  soonest,
  type SyncResult,
  UnsupportedHostError,
} from "../contract/mod.ts";
import { createConntrackCleaner, readSysctl, reportSetting, writeSysctls } from "../host/mod.ts";
import { createRefusals } from "../reconcile/mod.ts";
import { ifInstalled, isLackOfFeature, isOlder, ToolMissingError, versionIn } from "../tools/mod.ts";
import {
  createChainReconciler,
  createIptablesTools,
  examineHost as examineIptables,
  type Host,
} from "../xtables/mod.ts";
import { type Contribution, createDesired } from "./desired.ts";
import { IPVS_DRAIN, removeIpvsTraces } from "./leftovers.ts";
import type { IpvsCount } from "./mode.ts";
import { createIpvsReconciler, type IpvsReconciler } from "./reconcile.ts";
import { createRules, IPVS_LAYOUTS } from "./rules.ts";
import { createSets } from "./sets.ts";
import {
  createVirtualServers,
  operationLine,
  serverDefinition,
  serverKey,
  setTimeouts,
  type VirtualServers,
  weightsOf,
} from "./virtual_servers.ts";

/** kube-proxy's defaults. */
const DEFAULTS: IpvsSettings = {
  scheduler: "rr",
  strictARP: false,
  excludePrefixes: [],
  timeoutSeconds: { tcp: 0, tcpFin: 0, udp: 0 },
};

/** The IPVS backend of one family. */
export function createIpvsBackend(options: BackendOptions): Backend<IpvsCount> {
  const { family, runner, clock, logger, ipvs = DEFAULTS } = options;
  const servers = createVirtualServers(family, runner);
  const conntrack = createConntrackCleaner(options);
  const refusals = createRefusals<string>(logger);
  const desired = createDesired(family, ipvs.scheduler, refusals);
  let reconciler: IpvsReconciler | undefined;
  const traffic = createReaderOnDemand(async () => {
    const { createTrafficReader } = await import("./traffic_reader.ts");
    return createTrafficReader(desired, servers, clock);
  }, logger);

  function ready(): IpvsReconciler {
    if (!reconciler) throw new Error("the IPVS backend cannot sync before its setup has succeeded");
    return reconciler;
  }

  /** Starts to remove stale flows and gathers the result of a sync. */
  function finish(reconciler: IpvsReconciler): SyncResult<IpvsCount> {
    const result = conntrack.afterSync(reconciler, desired);
    return { ...result, againAfterMs: soonest(result.againAfterMs, reconciler.againAfterMs()) };
  }

  return {
    async setup() {
      const { flavour, randomFully } = await examineHost(options);
      const ruleset = createRules(desired, { family, randomFully });
      const tools = createIptablesTools(family, runner);
      const chains = createChainReconciler({ layout: IPVS_LAYOUTS[family], ruleset, tools, flavour, logger });
      const { excludePrefixes } = ipvs;
      reconciler = createIpvsReconciler({ family, runner, clock, desired, servers, excludePrefixes, refusals, chains });
      logger.info("IPVS is ready", { scheduler: ipvs.scheduler, flavour });
    },
    configure: () => configureHost(ipvs, options),
    async sync(delta) {
      const reconciler = ready();
      conntrack.noteDelta(desired, delta);
      desired.apply(delta);
      await traffic.follow(desired.settings());
      if (delta.part === "head") return NOTHING_DONE;
      await reconciler.run();
      return finish(reconciler);
    },
    async resync(cause) {
      const reconciler = ready();
      await reconciler.compareAndRun(cause);
      return finish(reconciler);
    },
    cleanup: () => removeIpvsTraces(options),
    readTraffic: async () => await traffic.current()?.read(),
    describe(key) {
      const contribution = desired.contribution(key);
      const name = desired.servicePort(key)?.name;
      const problem = reconciler?.problems().find(({ servicePort }) => servicePort === name)?.message;
      return contribution && { parts: describeContribution(contribution), problem };
    },
  };
}

/** The code of IPVS mode, as the registry loads it. */
export const IPVS_CODE = {
  create: createIpvsBackend,
  examine: examineHost,
  layout: IPVS_LAYOUTS.IPv4,
  removeTraces: removeIpvsTraces,
  differences: async (question: DepartureQuestion): Promise<readonly Difference[]> =>
    await (await import("./departure.ts")).differencesFrom(question),
  drain: IPVS_DRAIN,
};

/** Describes a contribution in the tools' own notation: virtual servers, set elements and addresses. */
function describeContribution({ servers, entries, addresses }: Contribution): readonly RulePart[] {
  const virtual = [...servers].map(([server, virtual]): RulePart => ({
    place: `virtual server ${server}`,
    lines: [
      operationLine({ does: "add", server, definition: virtual.definition }).trimEnd(),
      ...[...weightsOf(virtual)].map(([real, weight]) =>
        operationLine({ does: "add-real", server, real, weight }).trimEnd()
      ),
    ],
  }));
  const bySet = Map.groupBy(entries, (entry) => entry.split(" ", 1)[0]!);
  const sets = [...bySet].map(([set, all]): RulePart => (
    { place: `set ${set}`, lines: all.map((entry) => entry.slice(set.length + 1)) }
  ));
  return [...virtual, ...sets, { place: `addresses of ${DUMMY_INTERFACE}`, lines: [...addresses] }];
}

/** The address of a trial virtual server, from the ranges for documentation (RFC 5737 and 3849). */
const TRIAL_ADDRESS: Readonly<Record<Family, string>> = { IPv4: "192.0.2.1", IPv6: "2001:db8::1" };
const TRIAL_PORT = 9;

/**
 * Tests whether this host can serve a family with IPVS.
 * @throws {UnsupportedHostError} if it cannot, naming what is missing
 */
async function examineHost({ family, runner, ipvs: { scheduler } = DEFAULTS }: HostQuestion): Promise<Host> {
  const servers = createVirtualServers(family, runner);
  try {
    // In a container that cannot load modules, the kernel loads them on demand.
    const modules = ["ip_vs", `ip_vs_${scheduler}`, "nf_conntrack", "ip_set", "dummy"];
    await ifInstalled(runner.run({ tool: "modprobe", args: ["-q", "-a", ...modules] }));
    await servers.list().catch((error: unknown) => {
      const reason = errorText(error);
      if (!/Can't initialize ipvs/i.test(reason)) throw error;
      const fix = "set --proxy-mode nftables or iptables";
      throw new UnsupportedHostError(`this kernel has no IPVS (the module ip_vs): ${reason}; ${fix}`);
    });
    await createSets(family, runner).list();
    await tryScheduler(family, scheduler, servers);
    return await examineIptables(family, runner);
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    throw new UnsupportedHostError(
      `${error.message}; ipvs mode needs ipvsadm, ipset, ip and iptables; install it, or set --proxy-mode nftables`,
      { cause: error },
    );
  }
}

async function tryScheduler(family: Family, scheduler: string, servers: VirtualServers): Promise<void> {
  const server = serverKey("udp", TRIAL_ADDRESS[family], TRIAL_PORT);
  const failure = await servers.apply([{ does: "add", server, definition: serverDefinition(scheduler, 0) }]);
  if (failure === undefined || failure.kind === "done already") {
    await servers.apply([{ does: "delete", server }]);
    return;
  }
  if (/Scheduler or persistence engine not found/.test(failure.text)) {
    throw new UnsupportedHostError(
      `the kernel has no IPVS scheduler ${scheduler} (the module ip_vs_${scheduler}): ${failure.text}`,
    );
  }
  if (failure.kind === "forbidden") {
    throw new Error(`${failure.text}; ipvs mode needs the capability CAP_NET_ADMIN`);
  }
  const message = `this host's IPVS does not work for ${family}: ${failure.text}`;
  throw isLackOfFeature(failure) ? new UnsupportedHostError(message) : new Error(message);
}

/** From this version on, rescheduling a connection with a reused port loses no packet (kubernetes issue 93297). */
const CONN_REUSE_FIXED = "5.9";

/** Sets the kernel settings that IPVS mode needs, as kube-proxy does. Failures are reported. */
async function configureHost(
  { strictARP, timeoutSeconds }: IpvsSettings,
  options: BackendOptions,
): Promise<void> {
  const settings: KernelSetting[] = [
    { name: "net.ipv4.vs.conntrack", value: 1 },
    { name: "net.ipv4.vs.expire_nodest_conn", value: 1 },
    { name: "net.ipv4.vs.expire_quiescent_template", value: 1 },
    { name: "net.ipv4.ip_forward", value: 1 },
  ];
  const release = versionIn(await readSysctl(options, "kernel.osrelease") ?? "");
  if (release !== undefined && isOlder(release, CONN_REUSE_FIXED)) {
    settings.push({ name: "net.ipv4.vs.conn_reuse_mode", value: 0 });
  }
  if (strictARP) {
    settings.push({ name: "net.ipv4.conf.all.arp_ignore", value: 1 });
    settings.push({ name: "net.ipv4.conf.all.arp_announce", value: 2 });
  }
  await writeSysctls(options, settings);
  if (Object.values(timeoutSeconds).every((seconds) => seconds === 0)) return;
  const failure = await setTimeouts(options.runner, timeoutSeconds).then(() => undefined, errorText);
  reportSetting(options, "IPVS timeouts", failure);
}
