import type { Family, IpvsSettings } from "../../core/model/mod.ts";
import { errorText } from "../../platform/mod.ts";
import { type BackendOptions, UnsupportedHostError } from "../contract/mod.ts";
import { examineHost as examineIptables, type Host, type IptablesTools } from "../xtables/mod.ts";
import { reportSetting, type Sysctl, writeSysctls } from "../host/mod.ts";
import { isLackOfFeature, type Runner, ToolMissingError } from "../tools/mod.ts";
import type { Sets } from "./ipset.ts";
import type { VirtualServers } from "./ipvsadm.ts";
import { serverDefinition, serverKey } from "./virtual_servers.ts";

/** The tools that checking and configuring a host for IPVS mode needs. */
export interface HostTools {
  readonly runner: Runner;
  readonly servers: VirtualServers;
  readonly sets: Sets;
  readonly iptables: IptablesTools;
}

/** The address of a trial virtual server, from the ranges for documentation (RFC 5737 and 3849). */
const TRIAL_ADDRESS: Readonly<Record<Family, string>> = { IPv4: "192.0.2.1", IPv6: "2001:db8::1" };
const TRIAL_PORT = 9;

/**
 * Tests whether this host can serve a family with IPVS.
 * @throws {UnsupportedHostError} if it cannot, naming what is missing
 */
export async function examineHost(family: Family, settings: IpvsSettings, tools: HostTools): Promise<Host> {
  const { scheduler } = settings;
  try {
    await loadModules(tools.runner, ["ip_vs", `ip_vs_${scheduler}`, "nf_conntrack", "ip_set", "dummy"]);
    await tools.servers.list().catch((error: unknown) => {
      if (!/Can't initialize ipvs/i.test(String(error))) throw error;
      throw new UnsupportedHostError(
        `this kernel has no IPVS (the module ip_vs): ${(error as Error).message}; use mode nftables or iptables there`,
      );
    });
    await tools.sets.list();
    await tryScheduler(family, scheduler, tools.servers);
    return await examineIptables(family, tools.iptables);
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    throw new UnsupportedHostError(
      `${error.message}; ipvs mode needs ipvsadm, ipset, ip and iptables; use mode nftables there, or install it`,
      { cause: error },
    );
  }
}

/** Loads modules if possible. In a container that cannot, the kernel loads them on demand. */
async function loadModules(runner: Runner, modules: readonly string[]): Promise<void> {
  await runner.run({ tool: "modprobe", args: ["-q", "-a", ...modules] }).catch((error: unknown) => {
    if (!(error instanceof ToolMissingError)) throw error;
  });
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
const CONN_REUSE_FIXED = [5, 9] as const;

/** The sysctl with the version of the kernel. */
const RELEASE = "kernel.osrelease";

/** Sets the kernel settings that IPVS mode needs, as kube-proxy does. Failures are reported. */
export async function configureHost(
  { strictARP, timeoutSeconds }: IpvsSettings,
  servers: HostTools["servers"],
  options: BackendOptions,
): Promise<void> {
  const { runner } = options;
  const settings: Sysctl[] = [
    { name: "net.ipv4.vs.conntrack", value: 1 },
    { name: "net.ipv4.vs.expire_nodest_conn", value: 1 },
    { name: "net.ipv4.vs.expire_quiescent_template", value: 1 },
    { name: "net.ipv4.ip_forward", value: 1 },
  ];
  const reported = async <T>(name: string, work: Promise<T>): Promise<T | undefined> => {
    try {
      const result = await work;
      reportSetting(options, name);
      return result;
    } catch (error) {
      reportSetting(options, name, errorText(error));
    }
  };
  if (await reported(RELEASE, isOlderThan(runner, CONN_REUSE_FIXED))) {
    settings.push({ name: "net.ipv4.vs.conn_reuse_mode", value: 0 });
  }
  if (strictARP) {
    settings.push({ name: "net.ipv4.conf.all.arp_ignore", value: 1 });
    settings.push({ name: "net.ipv4.conf.all.arp_announce", value: 2 });
  }
  await writeSysctls(options, settings);
  if (Object.values(timeoutSeconds).some((seconds) => seconds > 0)) {
    await reported("IPVS timeouts", servers.setTimeouts(timeoutSeconds));
  }
}

/** Whether the kernel is older than a version; false if its version is unknown. */
async function isOlderThan(runner: Runner, [major, minor]: readonly [number, number]): Promise<boolean> {
  const { stdout } = await runner.run({ tool: "sysctl", args: ["-n", RELEASE], timeoutMs: 10_000 });
  const version = /^(\d+)\.(\d+)/.exec(stdout);
  if (!version) return false;
  const own = Number(version[1]);
  return own < major || (own === major && Number(version[2]) < minor);
}
